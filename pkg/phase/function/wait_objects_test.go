// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// polled returns the observation of the first poll of a WaitV2 with these conditions of allOf, and the number of objects that it has read.
func polled(t *testing.T, allOf []any, objects ...runtime.Object) (observed phase.Observation, reads int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitLanguage{}, objects...)
		call := validated(t, w, waitFor("1h", map[string]any{"allOf": allOf}))
		var err error
		if observed, err = w.Start(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		reads = len(w.cluster.Actions())
	})
	return observed, reads
}

// onConfigMap returns a condition that holds for a ConfigMap with yes: "true".
func onConfigMap(name string) map[string]any {
	c := condition(name, "")
	c["condition"] = "{ $.data.yes }"
	return c
}

func TestWaitReadsObjectOnce(t *testing.T) {
	var conditions []any
	for i := range 20 {
		c := onConfigMap("there")
		c["objectReference"].(map[string]any)["kind"] = fmt.Sprint("kind ", i)
		conditions = append(conditions, c)
	}
	observed, reads := polled(t, conditions, configMap("there", map[string]string{"yes": "true"}))
	if observed.State != phase.Succeeded || reads != 1 {
		t.Errorf("got %+v after %d reads, want succeeded after 1", observed, reads)
	}
}

// Objects are refused when they take too much memory together, even if the conditions do not look into them.
func TestWaitObjectsTooLarge(t *testing.T) {
	var conditions []any
	var objects []runtime.Object
	for i := range 20 {
		name := fmt.Sprint("c", i)
		c := onConfigMap(name)
		c["condition"] = "true"
		conditions = append(conditions, c)
		objects = append(objects, configMap(name, map[string]string{"text": strings.Repeat("x", 1<<20)}))
	}
	observed, _ := polled(t, conditions[:15], objects...)
	if observed.State != phase.Succeeded {
		t.Errorf("fifteen objects of 1 MiB: got %+v, want succeeded", observed)
	}
	observed, reads := polled(t, conditions, objects...)
	want := phase.Waiting{
		For:     "conditions.allOf[15] on configmaps db/c15, which cannot be evaluated",
		Details: "conditions.allOf[15] on configmaps db/c15: ObjectsTooLarge: the objects that the conditions name take more than 16777216 bytes of memory together: name fewer of them, or smaller ones",
	}
	if diff := cmp.Diff(phase.Observation{State: phase.Running, Waiting: want, PollAfter: observed.PollAfter}, observed); diff != "" {
		t.Errorf("20 objects of 1 MiB (-want +got):\n%s", diff)
	}
	if reads != 16 {
		t.Errorf("%d reads, want 16", reads)
	}
}

// An object that takes too much memory is refused before it is decoded: one by itself, and one together with others. The reason has no address.
func TestWaitRefusesDenseObjects(t *testing.T) {
	client := denseObjects(t)
	for name, test := range map[string]struct {
		elements []string // of the objects
		refused  int      // the number of those that are kept before
	}{"one": {[]string{"50000"}, 0}, "together": {[]string{"20000", "10000", "10001", "10002"}, 3}} {
		w := newWaitWorld(blueprint.WaitV2Language{})
		w.Client = client
		var conditions []any
		for _, elements := range test.elements {
			c := onConfigMap(elements)
			c["condition"] = "true"
			conditions = append(conditions, c)
		}
		observed, err := w.Poll(t.Context(), validated(t, w, waitFor("1h", map[string]any{"allOf": conditions})))
		if want := "ObjectsTooLarge: the objects"; err != nil || !strings.Contains(observed.Waiting.Details, "/"+test.elements[test.refused]+": "+want) {
			t.Errorf("%s: got %+v, %v, want %q about the object with index %d", name, observed, err, want, test.refused)
		}
	}
}

// denseObjects returns a client of objects of which each has as many small values as its name is.
func denseObjects(t *testing.T) dynamic.Interface { return denseObjectsWith(t, "{}") }

// denseObjectsWith returns a client of denseObjects with this metadata.
func denseObjectsWith(t *testing.T, metadata string) dynamic.Interface {
	t.Helper()
	server := roundTripper(func(req *http.Request) (*http.Response, error) {
		n, _ := strconv.Atoi(path.Base(req.URL.Path))
		text := `{"apiVersion":"v1","kind":"ConfigMap","metadata":` + metadata + `,"a":[` + strings.Repeat(`{"":0},`, n) + "0]}"
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: req,
		}, nil
	})
	client, err := dynamic.NewForConfig(phase.BoundObjects(&rest.Config{Host: "server.example.com", Transport: server, QPS: -1}))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// KubeOps works on objects of any size: it decodes only their metadata.
func TestKubeOpsOnDenseObjects(t *testing.T) {
	k := &KubeOps{Client: denseObjects(t), Mapper: NewMapper(serverWith(served("v1", "ConfigMap"))), pace: &pace{}}
	dense := target{APIVersion: "v1", Resource: "configmaps", Namespace: "db", Name: "50000"}
	reference := blueprint.ObjectReference{APIVersion: "v1", Resource: "configmaps", Namespace: "db", Name: dense.Name}
	if found, err := k.existing(t.Context(), testID, blueprint.KubeOpsArgs{ObjectReference: reference}); err != nil || found != dense {
		t.Errorf("existing: got %v, %v, want %v", found, err, dense)
	}
	if found, err := k.get(t.Context(), dense); err != nil || len(found.Object) != 3 {
		t.Errorf("get: got %v, %v, want only apiVersion, kind and metadata", found, err)
	}
	if err := k.delete(t.Context(), dense); err != nil {
		t.Errorf("delete: got %v", err)
	}
	args := blueprint.KubeOpsArgs{Spec: "data: {a: b}"}
	if observed, err := k.patch(t.Context(), phase.ID{}, args, kubeOpsIntent{Objects: []target{dense}}); err != nil || observed.State != phase.Succeeded {
		t.Errorf("patch: got %+v, %v", observed, err)
	}
}

// Conditions whose objects take much memory wait for a place. Others do not.
func TestLargeWaitsTakePlaces(t *testing.T) {
	w := newWaitWorld(blueprint.WaitV2Language{})
	w.Client = denseObjects(t)
	poll := func(elements string) string {
		c := onConfigMap(elements)
		c["condition"] = "true"
		observed, err := w.Poll(t.Context(), validated(t, w, waitFor("1h", map[string]any{"allOf": []any{c}})))
		if err != nil {
			t.Fatal(err)
		}
		if observed.State == phase.Succeeded {
			return ""
		}
		return observed.Waiting.Details
	}
	var releases []func()
	for {
		release, ok := largeWaits().TryAcquire("ops")
		if !ok {
			break
		}
		releases = append(releases, release)
	}
	want := "conditions.allOf[0] on configmaps db/10000: other conditions read large objects: 4 phases may do so at a time, " +
		"3 of them for the ActionSets of one namespace"
	if details := poll("10000"); details != want {
		t.Errorf("a large object without a place: got %q, want %q", details, want)
	}
	w.pace = &pace{}
	if details := poll("1000"); details != "" {
		t.Errorf("a small object without a place: got %q", details)
	}
	for _, release := range releases {
		release()
	}
	for range 2 * maxLargeWaits { // each gives its place up
		w.pace = &pace{}
		if details := poll("10000"); details != "" {
			t.Errorf("a large object: got %q", details)
		}
	}
}

// That Secrets are too large is shown, unlike what their conditions give.
func TestWaitSecretTooLarge(t *testing.T) {
	c := onConfigMap("s")
	c["objectReference"].(map[string]any)["resource"] = "secrets"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "s"}, Data: map[string][]byte{"a": make([]byte, maxWaitMemory)}}
	observed, _ := polled(t, []any{c}, secret)
	if want := "conditions.allOf[0] on secrets db/s: ObjectsTooLarge: "; !strings.HasPrefix(observed.Waiting.Details, want) {
		t.Errorf("got %+v, want %q", observed, want)
	}
}

func TestWaitNumberOfObjects(t *testing.T) {
	for n, want := range map[int]string{
		maxWaitObjects:     "",
		maxWaitObjects + 1: "conditions names 101 different objects, and may name 100: use several phases",
	} {
		var conditions []any
		for i := range n {
			for kind := range 2 {
				c := onConfigMap(fmt.Sprint("c", i))
				c["objectReference"].(map[string]any)["kind"] = fmt.Sprint("kind ", kind)
				conditions = append(conditions, c)
			}
		}
		w := newWaitWorld(blueprint.WaitLanguage{})
		_, err := w.Validate(t.Context(), phase.Call{Args: waitFor("1h", map[string]any{"anyOf": conditions})})
		if message, _ := phase.FailureOf(err); message != want {
			t.Errorf("%d objects: got %q, want %q", n, message, want)
		}
	}
}

// A cancelled call reads nothing, also in a process that has not cancelled it.
func TestWaitCancelledReadsNothing(t *testing.T) {
	w := newWaitWorld(blueprint.WaitLanguage{}, configMap("there", map[string]string{"yes": "true"}))
	call := validated(t, w, waitFor("1h", map[string]any{"allOf": []any{onConfigMap("there")}}))
	call.Cancelled = true
	observed, err := w.Poll(t.Context(), call)
	if err != nil || observed.State != phase.Stopped || len(w.cluster.Actions()) > 0 {
		t.Errorf("got %+v, %v after %d requests, want stopped after none", observed, err, len(w.cluster.Actions()))
	}
}

func TestWaitNamesTenReasons(t *testing.T) {
	var anyOf []any
	for range 500 {
		anyOf = append(anyOf, condition("there", "no"))
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitV2Language{}, configMap("there", map[string]string{"no": "false"}))
		call := validated(t, w, waitFor("0s", map[string]any{"anyOf": anyOf, "allOf": []any{condition("there", "no")}}))
		observed, err := w.Start(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(observed.Message, "does not hold"); n != maxReasons+1 || !strings.Contains(observed.Message, "; and 490 more; conditions.allOf[0] on") {
			t.Errorf("got %d reasons: %s", n, observed.Message)
		}
	})
}
