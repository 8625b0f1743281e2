// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mood is how a hook behaves.
type mood string

const (
	well  mood = "well"
	slow  mood = "slow"
	flaky mood = "flaky" // answers at random with 500, a broken connection, or invalid JSON
	wrong mood = "wrong" // wants children that are null, or of a type that is not declared
	gone  mood = "gone"  // does not listen
)

// chaosHook is a hook that wants as many ConfigMaps as the spec of the parent asks for, and has a mood.
type chaosHook struct {
	t       *testing.T
	address string
	stop    func()

	mu     sync.Mutex
	mood   mood
	random *rand.Rand
	calls  map[mood]int
	// called are the parents that it was called for, and finalized those for which it has answered that it has finished.
	called, finalized map[types.UID]bool
}

func startChaosHook(t *testing.T, seed uint64) *chaosHook {
	h := &chaosHook{t: t, address: "127.0.0.1:0", mood: well, random: rand.New(rand.NewPCG(seed, 1)),
		calls: map[mood]int{}, called: map[types.UID]bool{}, finalized: map[types.UID]bool{}}
	h.listen()
	t.Cleanup(func() { h.stop() })
	return h
}

// listen serves on the same address as before.
func (h *chaosHook) listen() {
	h.t.Helper()
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = listener.Addr().String()
	server := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until Close
	}()
	h.stop = func() {
		_ = server.Close()
		<-served
	}
}

// setMood puts the hook into another mood.
func (h *chaosHook) setMood(now mood) {
	h.t.Helper()
	h.mu.Lock()
	before := h.mood
	h.mood = now
	h.mu.Unlock()
	switch {
	case now == gone:
		h.stop()
	case before == gone:
		h.listen()
	}
}

// ServeHTTP implements http.Handler.
func (h *chaosHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Parent struct {
			metav1.ObjectMeta `json:"metadata"`
			Spec              chaosSpec `json:"spec"`
		} `json:"parent"`
		Children   map[string]map[string]json.RawMessage `json:"children"`
		Finalizing bool                                  `json:"finalizing"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	now, chance := h.mood, h.random.IntN(6)
	h.calls[now]++
	h.called[request.Parent.UID] = true
	h.mu.Unlock()
	if now == slow {
		select {
		case <-time.After(time.Duration(chance) * 100 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	if misbehaves(w, now, chance) {
		return
	}
	observed := len(request.Children["ConfigMap.v1"])
	answer := tree{"status": tree{"observed": observed}, "children": list{}}
	if !request.Finalizing {
		answer["children"] = request.Parent.Spec.children(request.Parent.Name)
	} else if observed == 0 {
		answer["finalized"] = true
		h.mu.Lock()
		h.finalized[request.Parent.UID] = true
		h.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// misbehaves writes a wrong answer in some moods, and reports whether it has.
func misbehaves(w http.ResponseWriter, now mood, chance int) bool {
	switch {
	case now == flaky && chance < 2:
		http.Error(w, "no", http.StatusInternalServerError)
	case now == flaky && chance == 2:
		panic(http.ErrAbortHandler) // breaks the connection
	case now == flaky && chance == 3:
		_, _ = io.WriteString(w, `{"children": [`)
	case now == wrong && chance < 3:
		_, _ = io.WriteString(w, `{"children": [null]}`)
	case now == wrong && chance < 5:
		_, _ = io.WriteString(w, `{"children": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "undeclared"}}]}`)
	default:
		return false
	}
	return true
}

// seen reports whether the hook was called for a parent, and whether it has finalized it.
func (h *chaosHook) seen(parent types.UID) (called, finalized bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.called[parent], h.finalized[parent]
}

// callsIn returns how often the hook was called in each mood.
func (h *chaosHook) callsIn() map[mood]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.calls)
}

// chaosSpec is the spec of a parent: the number of its children, and their value.
type chaosSpec struct {
	Count int64  `json:"count"`
	Value string `json:"value"`
}

func (s chaosSpec) children(parent string) list {
	children := list{}
	for i := range s.Count {
		children = append(children, tree{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": chaosChild(parent, i)}, "data": tree{"value": s.Value},
		})
	}
	return children
}

func chaosChild(parent string, i int64) string { return fmt.Sprintf("%s-%d", parent, i) }
