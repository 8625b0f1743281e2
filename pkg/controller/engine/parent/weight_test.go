// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
)

// bodies of answers whose trees take many times their size.
func heavyBodies() map[string]string {
	repeated := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	children := func(n int, data string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d","labels":{"app":"a"}},"data":%s}`, i, data))
		}
		return `{"children":[` + strings.Join(list, ",") + `]}`
	}
	status := func(list string) string { return `{"status":{"a":[` + list + `]}}` }
	var keys []string
	for i := range 30_000 {
		keys = append(keys, fmt.Sprintf(`"%d":0`, i))
	}
	return map[string]string{
		"small children":     children(4000, "{}"),
		"typical children":   children(400, `{"a":"`+strings.Repeat("x", 500)+`","b":{"c":[1,2,3],"d":[{"e":"f"},{"e":"g"}]}}`),
		"long strings":       children(10, `{"a":"`+strings.Repeat("x", 100_000)+`"}`),
		"strings to escape":  children(10, `{"a":"`+strings.Repeat("<", 100_000)+`"}`),
		"escaped strings":    children(10, `{"a":"`+strings.Repeat(`\"`, 50_000)+`"}`),
		"empty objects":      status(repeated("{}", 100_000)),
		"empty lists":        status(repeated("[]", 100_000)),
		"small objects":      status(repeated(`{"a":1}`, 50_000)),
		"small lists":        status(repeated(`[0]`, 50_000)),
		"keys":               `{"status":{` + strings.Join(keys, ",") + `}}`,
		"numbers":            status(repeated("1", 100_000)),
		"objects in a child": children(10, `{"a":[`+repeated(`{"a":"b"}`, 5000)+`]}`),
		"a deep status":      status(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)),
		"deep children":      children(10, `{"a":`+strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000)+"}"),
	}
}

// liveHeap returns the memory in use, including stacks.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // for what pools still hold
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

// takes returns the memory in use after an answer was decoded and planned, and some of its children were encoded.
func takes(t *testing.T, r *Spec, parent object, body string) (bytes int64) {
	selector, err := r.selectorOf(parent)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // with a stack of its own
		defer close(done)
		before := liveHeap()
		answer, err := r.decode([]byte(body), hook.Rules{Phase: "sync", Version: hook.V1}, parent)
		if err != nil {
			t.Error(err)
			return
		}
		p, err := r.decide(observed{parent: parent, of: r.parents[0], selector: selector, called: phaseSync, answer: answer}, merge.Update)
		if err != nil {
			t.Error(err)
			return
		}
		var encoded [][]byte
		for _, step := range p.steps[:min(len(p.steps), maxParallelWrites)] {
			text, err := json.Marshal(step.object)
			if err != nil {
				t.Error(err)
			}
			encoded = append(encoded, text)
		}
		bytes = liveHeap() - before
		runtime.KeepAlive(answer)
		runtime.KeepAlive(p)
		runtime.KeepAlive(encoded)
	}()
	<-done
	return bytes
}

func TestReservedMemory(t *testing.T) {
	r := specWith(t)
	parent := parentWith("")
	for name, body := range heavyBodies() {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
			defer server.Close()
			took := takes(t, r, parent, body)
			reserve := func(allowed int64) error { // for one answer
				client := hook.NewClient(hook.Options{AnswerMemory: 2 * allowed, MaxBody: 1 << 30})
				called, err := client.NewHook(t.Context(), hook.Config{Phase: "sync", URL: server.URL})
				if err != nil {
					t.Fatal(err)
				}
				defer called.Close()
				answer, err := called.Call(t.Context(), "uid", hook.NewCustomizeRequest(hook.CustomizeRequest{Controller: "{}", Parent: "{}"}))
				if err != nil {
					return err
				}
				defer answer.Release()
				return answer.Reserve(t.Context())
			}
			if err := reserve(took); hook.ReasonOf(err) != hook.ReasonTooLarge {
				t.Errorf("a body of %d bytes takes %d, and with no more allowed the error is %v", len(body), took, err)
			}
			if err := reserve(20 * (took + int64(len(body)))); err != nil {
				t.Errorf("a body of %d bytes takes %d, and with 20 times that allowed it is refused: %v", len(body), took, err)
			}
		})
	}
}
