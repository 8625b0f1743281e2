// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// parentResource is that of parents.yaml.
var parentResource = schema.GroupVersionResource{Group: "bench.millwright.dev", Version: "v1", Resource: "parents"}

const (
	parentKind = "Parent"
	// parentLabel of a child has the name of its parent. The selector of each parent requires it.
	parentLabel = "parent"
	// delayParameter of the hook's URL is how long each answer takes.
	delayParameter = "delay"
	// slowAnswer is how long a hook takes that cannot answer as many calls as there are.
	slowAnswer = 20 * time.Millisecond

	syncPath, customizePath = "/sync", "/customize"

	// decoratedLabel of a target has the value of its spec.
	decoratedLabel = "bench.millwright.dev/decorated"
	// relatedLabel of a ConfigMap has the name of the parent that it is related to.
	relatedLabel = "bench.millwright.dev/related-to"
	// sharedName is the ConfigMap that all parents are related to.
	sharedName = "shared"
	// callsKind has the calls of the sync hook, by parent. Their mark is the value of the shared ConfigMap or, without one, the number
	// of related objects.
	callsKind = "calls"
)

// slow is the query of the URL of a slow hook.
var slow = fmt.Sprintf("?%s=%v", delayParameter, slowAnswer)

// parentSpec is what the hook is to answer about a parent.
type parentSpec struct {
	// Children is the number of ConfigMaps, and Size the number of bytes that fill each of them.
	Children int `json:"children"`
	Size     int `json:"size,omitempty"`
	// Value is in each child, and in the status.
	Value              string  `json:"value"`
	ResyncAfterSeconds float64 `json:"resyncAfterSeconds,omitempty"`
	// Shared reports whether the shared ConfigMap is related, and Labelled whether those are whose label has the name of the parent.
	Shared   bool `json:"shared,omitempty"`
	Labelled bool `json:"labelled,omitempty"`
	// Selector of the children. The hook does not read it.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// hookCalls are the hooks of the parents. They decide nothing, and so cost little: their caller is measured.
type hookCalls struct {
	// seen is the observer of the hosting, nil for none.
	seen atomic.Pointer[observer]
	// last is the body of the last call of the sync hook.
	last atomic.Pointer[[]byte]
	// underWay is the number of calls that are not answered yet.
	underWay atomic.Int64
}

// hookRequest is what is read of a request.
type hookRequest struct {
	Parent  *hookParent `json:"parent"`
	Object  *hookParent `json:"object"` // the target, in requests to the sync hook of a DecoratorController
	Related map[string]map[string]struct {
		Data struct {
			Value string `json:"value"`
		} `json:"data"`
	} `json:"related"`
}

type hookParent struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              parentSpec `json:"spec"`
}

func (c *hookCalls) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.underWay.Add(1)
	defer c.underWay.Add(-1)
	if delay, err := time.ParseDuration(req.URL.Query().Get(delayParameter)); err == nil {
		time.Sleep(delay)
	}
	var request hookRequest
	body, err := io.ReadAll(req.Body)
	parent, answerOf := (*hookParent)(nil), syncAnswer
	if err = errors.Join(err, json.Unmarshal(body, &request)); err == nil {
		if parent = request.Parent; request.Object != nil {
			parent, answerOf = request.Object, decoratorAnswer
		}
	}
	if parent == nil {
		http.Error(w, fmt.Sprintf("no request about a parent: %v", err), http.StatusBadRequest)
		return
	}
	if req.URL.Path == customizePath {
		answerOf = customizeAnswer
	} else {
		c.record(parent.Name, body, &request)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answerOf(parent.Name, parent.Spec)) // it fails if the caller has gone
}

func (c *hookCalls) record(parent string, body []byte, request *hookRequest) {
	seen := c.seen.Load()
	if seen == nil || len(request.Related) == 0 {
		return
	}
	related := request.Related["ConfigMap.v1"]
	mark := strconv.Itoa(len(related))
	if shared, found := related[sharedName]; found {
		mark = shared.Data.Value
	}
	seen.record(callsKind, parent, mark)
	c.last.Store(&body)
}

// syncAnswer returns what the spec wants. Names and values need no escapes.
func syncAnswer(parent string, spec parentSpec) string {
	return fmt.Sprintf(`{"status":{"children":%d,"value":%q},"resyncAfterSeconds":%g,"children":[%s]}`,
		spec.Children, spec.Value, spec.ResyncAfterSeconds, childrenOf(parent, spec))
}

// decoratorAnswer returns what the spec wants of a target.
func decoratorAnswer(target string, spec parentSpec) string {
	return fmt.Sprintf(`{"labels":{%q:%q},"resyncAfterSeconds":%g,"attachments":[%s]}`,
		decoratedLabel, spec.Value, spec.ResyncAfterSeconds, childrenOf(target, spec))
}

func childrenOf(parent string, spec parentSpec) string {
	filling := ""
	if spec.Size > 0 {
		filling = `,"filling":"` + strings.Repeat("x", spec.Size) + `"`
	}
	children := make([]string, spec.Children)
	for i := range children {
		children[i] = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{%q:%q}},"data":{"value":%q%s}}`,
			childName(parent, i), parentLabel, parent, spec.Value, filling)
	}
	return strings.Join(children, ",")
}

// customizeAnswer returns the rules of the related objects that the spec wants.
func customizeAnswer(parent string, spec parentSpec) string {
	var rules []string
	rule := func(format string, args ...any) {
		rules = append(rules, `{"apiVersion":"v1","resource":"configmaps",`+fmt.Sprintf(format, args...)+`}`)
	}
	if spec.Shared {
		rule(`"names":[%q]`, sharedName)
	}
	if spec.Labelled {
		rule(`"labelSelector":{"matchLabels":{%q:%q}}`, relatedLabel, parent)
	}
	return `{"relatedResources":[` + strings.Join(rules, ",") + `]}`
}

// childName returns the name of the i-th child.
func childName(parent string, i int) string { return fmt.Sprintf("%s-%04d", parent, i) }

// startHook serves the hook at the address. Its CPU is this program's, not the operator's.
func (b *bench) startHook(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for calls of the hook: %w", err)
	}
	b.hookAddress = listener.Addr().String()
	server := &http.Server{Handler: &b.hookCalls, ReadHeaderTimeout: time.Minute}
	b.hook = server
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			b.fail(fmt.Errorf("serving the hook: %w", err))
		}
	}()
	return nil
}
