// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/useless/v1alpha1"
)

const (
	recordedUID = "11111111-1111-1111-1111-111111111111"
	liveUID     = "99999999-9999-9999-9999-999999999999"
	switchUID   = "22222222-2222-2222-2222-222222222222"
	newUID      = "88888888-8888-8888-8888-888888888888"
	machine     = "web-00001"
)

var machines = v1alpha1.Resource("machines").WithVersion("v1alpha1")

// machineServer has one Machine, and answers each write with the next resourceVersion, or with a refusal.
type machineServer struct {
	refuses  bool
	mu       sync.Mutex
	version  int
	received []string
}

func (s *machineServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(req.Body)
	uid := liveUID
	switch {
	case req.Method == http.MethodGet:
		fmt.Fprintf(w, `{"kind":"MachineList","items":[{"metadata":{"name":%q,"uid":%q,"resourceVersion":"500"}}]}`, machine, liveUID)
		return
	case s.refuses:
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":409,"message":"another version"}`)
		return
	case strings.HasSuffix(req.URL.Path, "/switches"):
		uid = newUID
	}
	s.received = append(s.received, req.Method+" "+req.URL.RequestURI()+" "+string(body))
	s.version++
	fmt.Fprintf(w, `{"metadata":{"name":"x","uid":%q,"resourceVersion":"%d"}}`, uid, 1000+s.version)
}

// replay replays the phases on the server.
func replay(t *testing.T, server *machineServer, phases ...[]traffic.Request) error {
	t.Helper()
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	client, err := New(&rest.Config{Host: listener.URL}, Kind{}, "bench-0002", 2, traffic.Recording{
		Resource: machines, Namespace: "bench-0001", Phases: phases,
		Objects: map[string]traffic.Identity{machine: {UID: recordedUID, ResourceVersion: "10"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for phase := range phases {
		if err := client.Run(t.Context(), phase); err != nil {
			return err
		}
	}
	return nil
}

func TestReplay(t *testing.T) {
	const base = "/apis/useless.container.training/v1alpha1/namespaces/bench-0001/"
	recorded := func(verb, method, resource, body string, place int64, answer traffic.Identity) traffic.Request {
		return traffic.Request{
			Verb: verb, Method: method, Resource: resource, Object: machine, Code: 200, URI: base + resource, Body: []byte(body),
			ContentType: "application/json", Accept: "application/json", Began: place, Answered: place + 1, Answer: answer,
		}
	}
	phases := [][]traffic.Request{
		{
			recorded("create", "POST", "switches", `{"namespace":"bench-0001","owner":"`+recordedUID+`","resourceVersion":"1"}`, 1,
				traffic.Identity{UID: switchUID, ResourceVersion: "11"}),
			recorded("update", "PUT", "machines/m/status", `{"resourceVersion":"10","flip":{"uid":"`+switchUID+`","resourceVersion":"11"}}`, 3,
				traffic.Identity{UID: recordedUID, ResourceVersion: "12"}),
		},
		{recorded("update", "PUT", "machines/m/status", `{"uid":"`+recordedUID+`","resourceVersion":"12"}`, 5, traffic.Identity{})},
	}
	server := &machineServer{}
	if err := replay(t, server, phases...); err != nil {
		t.Fatal(err)
	}
	to := strings.ReplaceAll(base, "bench-0001", "bench-0002")
	want := []string{
		"POST " + to + `switches {"namespace":"bench-0002","owner":"` + liveUID + `","resourceVersion":"1"}`,
		"PUT " + to + `machines/m/status {"resourceVersion":"500","flip":{"uid":"` + newUID + `","resourceVersion":"1001"}}`,
		"PUT " + to + `machines/m/status {"uid":"` + liveUID + `","resourceVersion":"1002"}`,
	}
	if !slices.Equal(server.received, want) {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(server.received, "\n"), strings.Join(want, "\n"))
	}
	err := replay(t, &machineServer{refuses: true}, phases...)
	if err == nil || !strings.Contains(err.Error(), "replaying create switches for bench-0002/"+machine) || !strings.Contains(err.Error(), "another version") {
		t.Errorf("the error of a refused request is %v", err)
	}
}

// TestSteps has requests that are under way at the same time, an event that is posted late, and requests that are left out.
func TestSteps(t *testing.T) {
	request := func(verb, resource string, began, answered int64) traffic.Request {
		return traffic.Request{Verb: verb, Resource: resource, Object: machine, Code: 200, Began: began, Answered: answered}
	}
	refused, others := request("update", "machines/status", 13, 14), request("list", "pods", 15, 16)
	refused.Code, others.Object = 409, ""
	recording := traffic.Recording{Namespace: "bench-0001", Phases: [][]traffic.Request{{
		request("create", "a", 1, 2), request("create", "b", 3, 5), request("create", "c", 4, 7), request("create", "d", 6, 8),
		request("update", "machines/status", 9, 12), request("create", "events", 10, 11), refused, others,
	}}}
	scripts, err := scripts(Kind{}, recording, "bench-0002")
	if err != nil || len(scripts) != 1 {
		t.Fatalf("got %d scripts (%v), want 1", len(scripts), err)
	}
	var got []string
	for _, s := range scripts[machine].phases[0] {
		var kinds []string
		for _, r := range append(s.requests, s.events...) {
			kinds = append(kinds, r.Kind())
		}
		got = append(got, strings.Join(kinds, " + "))
	}
	if want := []string{"create a", "create b + create c", "create d + create events", "update machines/status"}; !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestUnusableRecording(t *testing.T) {
	unreadable := Kind{WaitBefore: func(traffic.Request) (Wait, error) { return nil, io.ErrUnexpectedEOF }}
	phases := [][]traffic.Request{{{Verb: "update", Resource: "machines/status", Object: machine, Code: 200}}}
	for want, namespace := range map[string]string{`recording of namespace "bench-0001"`: "bench", "update machines/status of " + machine: "bench-0002"} {
		_, err := scripts(unreadable, traffic.Recording{Namespace: "bench-0001", Phases: phases}, namespace)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestTemplate(t *testing.T) {
	rd := newReader(Kind{}, traffic.Recording{Objects: map[string]traffic.Identity{machine: {UID: recordedUID, ResourceVersion: "10"}}}, machine, "")
	for name, test := range map[string]struct{ body, want string }{
		"body":     {`{"uid":"` + recordedUID + `","resourceVersion":"10"}`, `{"uid":"` + liveUID + `","resourceVersion":"5000"}`},
		"unknown":  {`{"uid":"` + switchUID + `","resourceVersion":"11"}`, `{"uid":"` + switchUID + `","resourceVersion":"11"}`},
		"URI":      {"/api/v1/namespaces/ns/secrets/actionset-run-" + recordedUID, "/api/v1/namespaces/ns/secrets/actionset-run-" + liveUID},
		"protobuf": {"k8s\x00" + recordedUID + `{"resourceVersion":"10"}`, "k8s\x00" + liveUID + `{"resourceVersion":"10"}`}, // which contains lengths
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(newTemplate([]byte(test.body), rd.madeUp).fill(map[string]string{recordedUID: liveUID, "10": "5000"})); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWait(t *testing.T) {
	exists, gone := func(child metav1.Object) bool { return child != nil }, func(child metav1.Object) bool { return child == nil }
	o := &object{changed: make(chan struct{})}
	for _, change := range []struct {
		wait  Wait
		event watch.EventType
	}{{exists, watch.Added}, {gone, watch.Deleted}} {
		done := make(chan error)
		go func() { done <- o.await(t.Context(), change.wait) }()
		if o.ready(change.wait) {
			t.Errorf("ready before the child was %s", change.event)
		}
		o.observe(change.event, &metav1.ObjectMeta{})
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
