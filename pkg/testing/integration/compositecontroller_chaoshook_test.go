// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
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
	wrong mood = "wrong" // wants children and related objects that are null, or of a type that is not declared or served
	gone  mood = "gone"  // does not listen
)

// chaosHook is a hook that wants as many ConfigMaps as the spec of the parent asks for, of a target a label and one Part, and has a
// mood.
type chaosHook struct {
	t       *testing.T
	address string
	stop    func()
	parts   string // the apiVersion of Parts

	mu     sync.Mutex
	mood   mood
	random *rand.Rand
	calls  map[mood]int
	// synced are the parents that it was called for while they were not finalized, and finalized those for which it has answered that it has
	// finished.
	synced, finalized map[chaosParent]bool
	customizations    int
}

// chaosParent is a parent, and who has called the hook for it.
type chaosParent struct {
	by  string
	uid types.UID
}

func startChaosHook(t *testing.T, seed uint64, parts string) *chaosHook {
	h := &chaosHook{t: t, address: "127.0.0.1:0", parts: parts, mood: well, random: rand.New(rand.NewPCG(seed, 1)),
		calls: map[mood]int{}, synced: map[chaosParent]bool{}, finalized: map[chaosParent]bool{}}
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

// chaosRequest is a request to a sync, finalize or customize hook.
type chaosRequest struct {
	Parent      *chaosWidget                          `json:"parent"`
	Children    map[string]map[string]json.RawMessage `json:"children"`
	Object      *chaosWidget                          `json:"object"`
	Attachments map[string]map[string]json.RawMessage `json:"attachments"`
	Related     map[string]map[string]chaosObject     `json:"related"`
	Finalizing  bool                                  `json:"finalizing"`
}

type chaosWidget struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              chaosSpec `json:"spec"`
}

// ServeHTTP implements http.Handler.
func (h *chaosHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request chaosRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	customize := r.URL.Path == "/customize"
	parent, member := chaosParent{by: byComposite}, "children"
	switch {
	case request.Object != nil:
		parent, member = chaosParent{byDecorator, request.Object.UID}, "attachments"
	case customize:
		member = "relatedResources"
	default:
		parent.uid = request.Parent.UID
	}
	h.mu.Lock()
	now, chance := h.mood, h.random.IntN(6)
	h.calls[now]++
	if customize {
		h.customizations++
	} else if !request.Finalizing {
		h.synced[parent] = true
	}
	h.mu.Unlock()
	if now == slow {
		select {
		case <-time.After(time.Duration(chance) * 100 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	if misbehaves(w, now, chance, member) {
		return
	}
	answer := tree{"relatedResources": list{}}
	switch {
	case customize:
		answer["relatedResources"] = list{request.Parent.Spec.rule()}
	case request.Object != nil:
		answer = request.decoration(h.parts)
	default:
		answer = request.composition()
	}
	if answer["finalized"] == true {
		h.mu.Lock()
		h.finalized[parent] = true
		h.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// misbehaves writes a wrong answer in some moods, and reports whether it has. The member of the answer is a list of objects.
func misbehaves(w http.ResponseWriter, now mood, chance int, member string) bool {
	switch {
	case now == flaky && chance < 2:
		http.Error(w, "no", http.StatusInternalServerError)
	case now == flaky && chance == 2:
		panic(http.ErrAbortHandler) // breaks the connection
	case now == flaky && chance == 3:
		_, _ = fmt.Fprintf(w, `{%q: [`, member)
	case now == wrong && chance < 3:
		_, _ = fmt.Fprintf(w, `{%q: [null]}`, member)
	case now == wrong && chance < 5:
		_, _ = fmt.Fprintf(w, `{%q: [{"apiVersion": "v1", "kind": "Secret", "resource": "nosuch", "metadata": {"name": "undeclared"}}]}`, member)
	default:
		return false
	}
	return true
}

// composition returns what is desired of a parent and its children.
func (r *chaosRequest) composition() tree {
	observed := len(r.Children["ConfigMap.v1"])
	answer := tree{"status": tree{"observed": observed}, "children": list{}, "finalized": r.Finalizing && observed == 0}
	if !r.Finalizing {
		answer["children"] = r.Parent.Spec.children(r.Parent.Name, r.value(r.Parent.Spec))
	}
	return answer
}

// decoration returns what is desired of a target and its attachment.
func (r *chaosRequest) decoration(parts string) tree {
	if r.Finalizing {
		return tree{"labels": tree{chaosLabel: nil}, "attachments": list{}, "finalized": len(r.Attachments["Part."+parts]) == 0}
	}
	value := r.value(r.Object.Spec)
	return tree{"labels": tree{chaosLabel: value}, "attachments": list{tree{
		"apiVersion": parts, "kind": "Part", "metadata": tree{"name": r.Object.Name}, "spec": tree{"value": value},
	}}}
}

func (r *chaosRequest) value(of chaosSpec) string { return of.valueWith(r.Related["ConfigMap.v1"]) }

// seen reports whether the sync hook was called for a parent, and whether the finalize hook has finalized it.
func (h *chaosHook) seen(by string, parent types.UID) (synced, finalized bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.synced[chaosParent{by, parent}], h.finalized[chaosParent{by, parent}]
}

// customized returns how often the customize hook was called.
func (h *chaosHook) customized() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.customizations
}

// callsIn returns how often the hook was called in each mood.
func (h *chaosHook) callsIn() map[mood]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.calls)
}

// chaosSpec is the spec of a parent: the number of its children, their value, and the name or the group of related objects.
type chaosSpec struct {
	Count   int64  `json:"count"`
	Value   string `json:"value"`
	Related string `json:"related"`
	Group   string `json:"group"`
}

// String returns the spec as JSON. A patch with it replaces all fields.
func (s chaosSpec) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (s chaosSpec) children(parent, value string) list {
	children := list{}
	for i := range s.Count {
		children = append(children, tree{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": chaosChild(parent, i)}, "data": tree{"value": value},
		})
	}
	return children
}

func chaosChild(parent string, i int64) string { return fmt.Sprintf("%s-%d", parent, i) }
