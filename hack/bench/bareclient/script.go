// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/hack/bench/traffic"
)

// recorded is a request to be sent again.
type recorded struct {
	traffic.Request
	uri, body template
	wait      Wait
	// answerCounts reports whether a later request contains a part of the answer.
	answerCounts bool
}

// step is what is sent concurrently, when the child is as it has to be, and the events that are posted after it.
type step struct {
	wait     Wait
	requests []*recorded
	events   []*recorded
}

// script is what is to be done with one object.
type script struct {
	before traffic.Identity // of the recorded object
	phases [][]step
}

// scripts returns the script of each object, to be replayed in the namespace. Requests that the API server refused, and those that
// were sent for no object, are left out: the bare client has less to do than the operator had.
func scripts(kind Kind, recording traffic.Recording, namespace string) (map[string]script, error) {
	if len(namespace) != len(recording.Namespace) {
		return nil, fmt.Errorf("a recording of namespace %q can be replayed only in one whose name has the same length", recording.Namespace)
	}
	scripts := map[string]script{}
	readers := map[string]*reader{}
	for phase, requests := range recording.Phases {
		read := map[string][]*recorded{}
		for _, r := range requests {
			if r.Code >= http.StatusMultipleChoices || r.Object == "" {
				continue
			}
			if readers[r.Object] == nil {
				readers[r.Object] = newReader(kind, recording, r.Object, namespace)
			}
			request, err := readers[r.Object].read(r)
			if err != nil {
				return nil, fmt.Errorf("reading the recorded request %s of %s: %w", r.Kind(), r.Object, err)
			}
			read[r.Object] = append(read[r.Object], request)
		}
		for object, requests := range read {
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
	kind     Kind
	from, to string               // namespaces
	madeUp   sets.Set[string]     // the values that the API server has set until now
	source   map[string]*recorded // the last request whose answer contained a value
}

func newReader(kind Kind, recording traffic.Recording, object, namespace string) *reader {
	before := recording.Objects[object]
	return &reader{
		kind: kind, from: recording.Namespace, to: namespace,
		madeUp: sets.New(string(before.UID), before.ResourceVersion),
		source: map[string]*recorded{},
	}
}

func (rd *reader) read(r traffic.Request) (read *recorded, err error) {
	read = &recorded{
		Request: r,
		uri:     newTemplate([]byte(strings.ReplaceAll(r.URI, "/"+rd.from+"/", "/"+rd.to+"/")), rd.madeUp),
		body:    newTemplate(bytes.ReplaceAll(r.Body, []byte(rd.from), []byte(rd.to)), rd.madeUp),
	}
	if rd.kind.WaitBefore != nil {
		if read.wait, err = rd.kind.WaitBefore(r); err != nil {
			return nil, err
		}
	}
	for _, value := range slices.Concat(read.uri.places, read.body.places) {
		if source := rd.source[value]; source != nil {
			source.answerCounts = true
		}
	}
	if read.isEvent() {
		return read, nil // no request refers to it
	}
	for _, value := range []string{string(r.Answer.UID), r.Answer.ResourceVersion} {
		rd.madeUp.Insert(value)
		rd.source[value] = read
	}
	return read, nil
}

func (r *recorded) isEvent() bool { return r.Resource == "events" }

// steps groups the requests that were sent concurrently: what began before any other of its step was answered.
func steps(requests []*recorded) (steps []step) {
	var events []*recorded
	answered := int64(0) // the first answer of the last step
	for _, r := range requests {
		switch {
		case r.isEvent():
			events = append(events, r)
		case r.Began < answered && r.wait == nil:
			last := &steps[len(steps)-1]
			last.requests = append(last.requests, r)
			answered = min(answered, r.Answered)
		default:
			steps = append(steps, step{wait: r.wait, requests: []*recorded{r}})
			answered = r.Answered
		}
	}
	return withEvents(steps, events)
}

// withEvents puts the events where the operator records them, which is after it has created or changed the last child. The proxy saw
// them when they were posted, which may be much later.
func withEvents(steps []step, events []*recorded) []step {
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

// template is a body or a URI with places for what the API server sets: UIDs and resourceVersions.
type template struct {
	texts  [][]byte // one more than there are places
	places []string // the recorded value of each
}

// placePattern matches the places. In protobuf resourceVersions stay as recorded, since their lengths differ: the only ones that
// are sent so are in events and in the snapshot of a run, where they have no effect. UIDs have one length.
var placePattern = regexp.MustCompile(`"resourceVersion":"([0-9]+)"|([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`)

// newTemplate leaves places for the recorded values that the API server has set.
func newTemplate(body []byte, madeUp sets.Set[string]) template {
	var t template
	protobuf := bytes.HasPrefix(body, []byte("k8s\x00"))
	from := 0
	for _, match := range placePattern.FindAllSubmatchIndex(body, -1) {
		start, end := match[2], match[3]
		if start < 0 {
			start, end = match[4], match[5]
		} else if protobuf {
			continue
		}
		if value := string(body[start:end]); madeUp.Has(value) {
			t.texts, t.places = append(t.texts, body[from:start]), append(t.places, value)
			from = end
		}
	}
	t.texts = append(t.texts, body[from:])
	return t
}

// fill returns the body with the value of now for each recorded value.
func (t template) fill(now map[string]string) []byte {
	if len(t.places) == 0 {
		return t.texts[0]
	}
	var body bytes.Buffer
	for i, value := range t.places {
		body.Write(t.texts[i])
		body.WriteString(now[value])
	}
	body.Write(t.texts[len(t.places)])
	return body.Bytes()
}
