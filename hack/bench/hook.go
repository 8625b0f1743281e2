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
	"strings"
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
)

// parentSpec is what the hook is to answer about a parent.
type parentSpec struct {
	// Children is the number of ConfigMaps, and Size the number of bytes that fill each of them.
	Children int `json:"children"`
	Size     int `json:"size,omitempty"`
	// Value is in each child, and in the status.
	Value              string  `json:"value"`
	ResyncAfterSeconds float64 `json:"resyncAfterSeconds,omitempty"`
	// Selector of the children. The hook does not read it.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// answerHook is the sync hook of the parents. It decides nothing, and so costs little: its caller is measured.
func answerHook(w http.ResponseWriter, req *http.Request) {
	if delay, err := time.ParseDuration(req.URL.Query().Get(delayParameter)); err == nil {
		time.Sleep(delay)
	}
	var request struct {
		Parent *struct {
			metav1.ObjectMeta `json:"metadata"`
			Spec              parentSpec `json:"spec"`
		} `json:"parent"`
	}
	body, err := io.ReadAll(req.Body)
	if err := errors.Join(err, json.Unmarshal(body, &request)); err != nil || request.Parent == nil {
		http.Error(w, fmt.Sprintf("no request about a parent: %v", err), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answerOf(request.Parent.Name, request.Parent.Spec)) // it fails if the caller has gone
}

// answerOf returns what the spec wants. Names and values need no escapes.
func answerOf(parent string, spec parentSpec) string {
	filling := ""
	if spec.Size > 0 {
		filling = `,"filling":"` + strings.Repeat("x", spec.Size) + `"`
	}
	children := make([]string, spec.Children)
	for i := range children {
		children[i] = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{%q:%q}},"data":{"value":%q%s}}`,
			childName(parent, i), parentLabel, parent, spec.Value, filling)
	}
	return fmt.Sprintf(`{"status":{"children":%d,"value":%q},"resyncAfterSeconds":%g,"children":[%s]}`,
		spec.Children, spec.Value, spec.ResyncAfterSeconds, strings.Join(children, ","))
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
	server := &http.Server{Handler: http.HandlerFunc(answerHook), ReadHeaderTimeout: time.Minute}
	b.hook = server
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			b.fail(fmt.Errorf("serving the hook: %w", err))
		}
	}()
	return nil
}
