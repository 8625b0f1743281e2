// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/hack/bench/traffic"
)

// request is one that was recorded, to be sent again.
type request struct {
	traffic.Request
	// Path and query are those of the other namespace.
	uri  template
	body template
	wait wait
	// answerCounts tells that a later request has something of the answer in it.
	answerCounts bool
}

// step is what is sent at once, when the child is as it has to be, and the events that are posted after it.
type step struct {
	wait     wait
	requests []*request
	events   []*request
}

// script is what is to be done with one object.
type script struct {
	before traffic.Identity // what it was when it was recorded
	phases [][]step
}

// scripts turns a recording into the script of each object, to be played in another namespace. Requests that the API server
// has refused, and those about no object, are left out: without them the bare client has less to do than the operator had.
func scripts(k kind, recording traffic.Recording, namespace string) (map[string]script, error) {
	if len(namespace) != len(recording.Namespace) {
		return nil, fmt.Errorf("what was recorded in namespace %q can be replayed only where the name is as long", recording.Namespace)
	}
	scripts := map[string]script{}
	readers := map[string]*reader{}
	for phase, recorded := range recording.Phases {
		requests := map[string][]*request{}
		for _, r := range recorded {
			if r.Code >= http.StatusMultipleChoices || r.Object == "" {
				continue
			}
			if readers[r.Object] == nil {
				readers[r.Object] = newReader(k, recording, r.Object, namespace)
			}
			read, err := readers[r.Object].read(r)
			if err != nil {
				return nil, fmt.Errorf("reading the recorded request %s of %s: %w", r.Kind(), r.Object, err)
			}
			requests[r.Object] = append(requests[r.Object], read)
		}
		for object, requests := range requests {
			if _, ok := scripts[object]; !ok {
				scripts[object] = script{recording.Objects[object], make([][]step, len(recording.Phases))}
			}
			scripts[object].phases[phase] = steps(requests)
		}
	}
	return scripts, nil
}

// reader reads the requests about one object, in their order.
type reader struct {
	kind     kind
	from, to string              // namespaces
	madeUp   sets.Set[string]    // what the API server has made up so far
	toldBy   map[string]*request // the last one whose answer had it
}

func newReader(k kind, recording traffic.Recording, object, namespace string) *reader {
	before := recording.Objects[object]
	return &reader{
		kind: k,
		from: recording.Namespace, to: namespace,
		madeUp: sets.New(string(before.UID), before.ResourceVersion),
		toldBy: map[string]*request{},
	}
}

func (rd *reader) read(r traffic.Request) (*request, error) {
	wait, err := rd.kind.waitBefore(r)
	if err != nil {
		return nil, err
	}
	read := &request{
		Request: r,
		uri:     newTemplate([]byte(strings.ReplaceAll(r.URI, "/"+rd.from+"/", "/"+rd.to+"/")), rd.madeUp),
		body:    newTemplate(bytes.ReplaceAll(r.Body, []byte(rd.from), []byte(rd.to)), rd.madeUp),
		wait:    wait,
	}
	for _, value := range slices.Concat(read.uri.places, read.body.places) {
		if teller := rd.toldBy[value]; teller != nil {
			teller.answerCounts = true
		}
	}
	if read.isEvent() {
		return read, nil // of which nobody speaks
	}
	for _, value := range []string{string(r.Answer.UID), r.Answer.ResourceVersion} {
		rd.madeUp.Insert(value)
		rd.toldBy[value] = read
	}
	return read, nil
}

func (r *request) isEvent() bool { return r.Resource == "events" }

// steps puts together what was sent at once: what began before any other of its step was answered.
func steps(requests []*request) (steps []step) {
	var events []*request
	answered := int64(0) // the first of the last step
	for _, r := range requests {
		switch {
		case r.isEvent():
			events = append(events, r)
		case r.Began < answered && r.wait.until == nil:
			last := &steps[len(steps)-1]
			last.requests = append(last.requests, r)
			answered = min(answered, r.Answered)
		default:
			steps = append(steps, step{wait: r.wait, requests: []*request{r}})
			answered = r.Answered
		}
	}
	return withEvents(steps, events)
}

// withEvents puts the events where the operator records them, which is after it has created or changed the last child. They
// were recorded by the proxy when their turn came to be posted, which may be much later.
func withEvents(steps []step, events []*request) []step {
	if len(events) == 0 {
		return steps
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if verb := steps[i].requests[0].Verb; verb == "create" || verb == "patch" {
			steps[i].events = events
			return steps
		}
	}
	return append(steps, step{events: events})
}
