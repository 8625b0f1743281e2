// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

const (
	// bombersOfEachKind is how many parents have a hook that answers with one kind of bomb.
	bombersOfEachKind = 20
	// beforeTheBreaker is how many of them are bombed by a hook that is suspended for it, which then calls ever more rarely.
	beforeTheBreaker = 5
	mebibyte         = 1 << 20
)

// bomb is a way to answer that should take all memory of an engine, and what its author reads.
type bomb struct {
	answer func(w io.Writer, r *http.Request)
	header map[string]string
	reason string
}

// repeats writes the text until there are so many bytes.
func repeats(w io.Writer, text string, size int) {
	block := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	for written := 0; written < size; {
		n, err := w.Write(block)
		if err != nil {
			return
		}
		written += n
	}
}

func around(w io.Writer, begin string, middle func(), end string) {
	_, _ = io.WriteString(w, begin)
	middle()
	_, _ = io.WriteString(w, end)
}

// blanks are 256 MiB, compressed to a thousandth.
var blanks = sync.OnceValue(func() []byte {
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	repeats(z, " ", 256*mebibyte)
	_ = z.Close()
	return compressed.Bytes()
})

// listed are n pieces of text with their number, with commas between them.
func listed(n int, format string) func() []byte {
	return sync.OnceValue(func() []byte {
		var all []byte
		for i := range n {
			all = append(fmt.Appendf(all, format, i), ',')
		}
		return all[:len(all)-1]
	})
}

var (
	manyChildren = listed(150_000, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d"}}`)
	manyKeys     = listed(1_500_000, `"%d":0`)
)

var bombs = map[string]bomb{
	"long-string": {answer: func(w io.Writer, _ *http.Request) {
		around(w, `{"status":{"a":"`, func() { repeats(w, "x", 60*mebibyte) }, `"}}`)
	}, reason: "HookResponseTooLarge"},
	"deep": {answer: func(w io.Writer, _ *http.Request) {
		around(w, `{"status":{"a":`, func() { repeats(w, "[", 15*mebibyte) }, `}}`)
	}, reason: "HookResponseTooLarge"},
	"many-children": {answer: func(w io.Writer, _ *http.Request) {
		around(w, `{"children":[`, func() { _, _ = w.Write(manyChildren()) }, `]}`)
	}, reason: "HookResponseTooLarge"},
	"many-keys": {answer: func(w io.Writer, _ *http.Request) {
		around(w, `{"status":{`, func() { _, _ = w.Write(manyKeys()) }, `}}`)
	}, reason: "HookResponseTooLarge"},
	"gzip": {answer: func(w io.Writer, _ *http.Request) { _, _ = w.Write(blanks()) },
		header: map[string]string{"Content-Encoding": "gzip"}, reason: "HookResponseTooLarge"},
	"endless": {answer: func(w io.Writer, _ *http.Request) { repeats(w, " ", 1<<40) }, reason: "HookResponseTooLarge"},
	"drip": {answer: func(w io.Writer, r *http.Request) {
		repeats(w, " ", 10*mebibyte)
		<-r.Context().Done()
	}, reason: "HookUnreachable"},
	// The largest that is decoded: the API server refuses it.
	"allowed": {answer: func(w io.Writer, _ *http.Request) {
		around(w, `{"status":{"a":"`, func() { repeats(w, "x", 15*mebibyte) }, `"}}`)
	}},
}

// bomber is the server of all hooks with bombs. It counts the parents that each was thrown at.
type bomber struct {
	mu      sync.Mutex
	parents map[string]map[string]bool
}

// ServeHTTP implements http.Handler.
func (b *bomber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := strings.TrimPrefix(r.URL.Path, "/")
	var call hookCall
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for name, value := range bombs[kind].header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(http.StatusOK)
	b.mu.Lock()
	if b.parents[kind] == nil {
		b.parents[kind] = map[string]bool{}
	}
	b.parents[kind][call.name()] = true
	b.mu.Unlock()
	bombs[kind].answer(w, r)
}

// missed returns the kinds of which not all parents got theirs.
func (b *bomber) missed() (kinds []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind, bomb := range bombs {
		all := bombersOfEachKind
		if bomb.reason == "HookUnreachable" {
			all = beforeTheBreaker
		}
		if n := len(b.parents[kind]); n < all {
			kinds = append(kinds, fmt.Sprintf("%s (%d of %d)", kind, n, all))
		}
	}
	return kinds
}

// An engine in as much memory as is shipped outlives hooks that answer with anything, and serves the others meanwhile.
func TestNoAnswerOfAHookKillsTheEngine(t *testing.T) {
	onlyAsMemoryTest(t)
	e := newEngineEnv(t)
	p := startLimited(t, engine, "controllers", "--kubeconfig", engine.account(t, e.cluster).WriteKubeconfig(t), "--controllers", strings.Join(engine.controllers(t), ","),
		"--leader-elect=false", "--serving-address=", "--target-label-selector", engineTest+"="+e.servedBy)
	thrown := &bomber{parents: map[string]map[string]bool{}}
	for kind := range bombs {
		// Each kind on a host of its own: calls to one host wait for each other.
		server := httptest.NewServer(thrown)
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		name := e.name + "-" + kind
		cc := e.composite(name, strings.ReplaceAll(configMaps, "HOOK/sync", server.URL+"/"+kind))
		if err := unstructured.SetNestedField(cc.Object, name, "spec", "parentResource", "labelSelector", "matchLabels", testLabel); err != nil {
			t.Fatal(err)
		}
		if _, err := e.at(composite).Create(e.Context(), cc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.cleanUp(composite, name)
		for i := range bombersOfEachKind {
			e.parent(fmt.Sprint(kind, "-", i), fmt.Sprintf("{metadata: {labels: {%s: %s}}}", testLabel, name))
		}
	}
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps)
	for round := 0; len(thrown.missed()) > 0 || round < 20; round++ {
		name := fmt.Sprint("good-", round)
		e.parent(name, "{spec: {who: you}}")
		e.eventually(func() string {
			if e.look("ConfigMap", name) == nil {
				return p.mustRun(t) + name + " has no child; not all bombs were thrown: " + strings.Join(thrown.missed(), ", ")
			}
			return p.mustRun(t)
		})
		time.Sleep(100 * time.Millisecond) // how often a good parent comes
		if round == 3000 {
			t.Fatalf("not all bombs were thrown: %s", strings.Join(thrown.missed(), ", "))
		}
	}
	for kind, bomb := range bombs {
		if bomb.reason != "" {
			e.eventually(func() string {
				ready := readyOf(e.controller(e.name + "-" + kind))
				if ready == nil || ready.Reason != bomb.reason && ready.Reason != "HookMemoryBusy" && ready.Reason != "HookSuspended" {
					return fmt.Sprintf("the hook with the bomb %s is %+v, want %s", kind, ready, bomb.reason)
				}
				return p.mustRun(t)
			})
		}
	}
	e.awaitReason(v1alpha1.ReasonServing)
	p.mustHaveFit(t)
}

func readyOf(cc *v1alpha1.CompositeController) *metav1.Condition {
	for i := range cc.Status.Conditions {
		if cc.Status.Conditions[i].Type == v1alpha1.ConditionReady {
			return &cc.Status.Conditions[i]
		}
	}
	return nil
}
