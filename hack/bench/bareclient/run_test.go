// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"millwright.dev/hack/bench/traffic"
)

const (
	recordedUID = "11111111-1111-1111-1111-111111111111"
	liveUID     = "99999999-9999-9999-9999-999999999999"
	switchUID   = "22222222-2222-2222-2222-222222222222"
	newUID      = "88888888-8888-8888-8888-888888888888"
)

// machineServer has one Machine, and answers each write with the next resourceVersion.
type machineServer struct {
	mu       sync.Mutex
	version  int
	received []string
}

func (s *machineServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if req.Method == http.MethodGet {
		fmt.Fprintf(w, `{"kind":"MachineList","items":[{"metadata":{"name":"m","uid":%q,"resourceVersion":"500"}}]}`, liveUID)
		return
	}
	body, _ := io.ReadAll(req.Body)
	s.received = append(s.received, req.Method+" "+req.URL.RequestURI()+" "+string(body))
	uid := liveUID
	if strings.HasSuffix(req.URL.Path, "/switches") {
		uid = newUID
	}
	s.version++
	fmt.Fprintf(w, `{"metadata":{"name":"x","uid":%q,"resourceVersion":"%d"}}`, uid, 1000+s.version)
}

func TestWhatIsReplayedSpeaksOfWhatItsOwnRequestsWereAnsweredWith(t *testing.T) {
	const base = "/apis/useless.container.training/v1alpha1/namespaces/bench-0001/"
	recorded := func(verb, method, resource, body string, place int64, answer traffic.Identity) traffic.Request {
		return traffic.Request{
			Verb: verb, Method: method, Resource: resource, Object: "m", Code: 200, URI: base + resource, Body: []byte(body),
			ContentType: "application/json", Accept: "application/json", Began: place, Answered: place + 1, Answer: answer,
		}
	}
	recording := traffic.Recording{
		Namespace: "bench-0001",
		Objects:   map[string]traffic.Identity{"m": {UID: recordedUID, ResourceVersion: "10"}},
		Phases: [][]traffic.Request{
			{
				recorded("create", "POST", "switches", `{"namespace":"bench-0001","owner":"`+recordedUID+`","resourceVersion":"1"}`, 1, traffic.Identity{UID: switchUID, ResourceVersion: "11"}),
				recorded("update", "PUT", "machines/m/status", `{"resourceVersion":"10","flip":{"uid":"`+switchUID+`","resourceVersion":"11"}}`, 3, traffic.Identity{UID: recordedUID, ResourceVersion: "12"}),
			},
			{recorded("update", "PUT", "machines/m/status", `{"uid":"`+recordedUID+`","resourceVersion":"12"}`, 5, traffic.Identity{UID: recordedUID, ResourceVersion: "13"})},
		},
	}
	handler := &machineServer{}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := New(&rest.Config{Host: server.URL}, "machines", "bench-0002", 2, recording)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for phase := range 2 {
		if err := client.Run(ctx, phase); err != nil {
			t.Fatal(err)
		}
	}
	to := strings.ReplaceAll(base, "bench-0001", "bench-0002")
	want := []string{
		"POST " + to + `switches {"namespace":"bench-0002","owner":"` + liveUID + `","resourceVersion":"1"}`,
		"PUT " + to + `machines/m/status {"resourceVersion":"500","flip":{"uid":"` + newUID + `","resourceVersion":"1001"}}`,
		"PUT " + to + `machines/m/status {"uid":"` + liveUID + `","resourceVersion":"1002"}`,
	}
	if !slices.Equal(handler.received, want) {
		t.Errorf("it sent\n%s\nwant\n%s", strings.Join(handler.received, "\n"), strings.Join(want, "\n"))
	}
}

func TestAReplayThatIsRefusedNamesTheRequestAndTheObject(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if req.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"m"}}]}`)
			return
		}
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": http.StatusConflict, "message": "another version"})
	}))
	t.Cleanup(server.Close)
	client, err := New(&rest.Config{Host: server.URL}, "machines", "bench-0002", 2, traffic.Recording{Namespace: "bench-0001", Phases: [][]traffic.Request{{
		{Verb: "update", Method: "PUT", Resource: "machines/status", Object: "m", Code: 200, URI: "/m", Body: []byte("{}")},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	err = client.Run(t.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), "replaying update machines/status for machines bench-0002/m") || !strings.Contains(err.Error(), "another version") {
		t.Errorf("got %v", err)
	}
}
