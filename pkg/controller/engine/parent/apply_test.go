// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
)

// childWith is a ConfigMap with more in its metadata.
func childWith(name, metadata string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"ns","name":%q,"uid":"uid-%s","resourceVersion":"5",%s},"data":{"k":"1"}}`, name, name, metadata)
}

const (
	owned    = `"labels":{"app":"a"},"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"thing","uid":"parent","controller":true}]`
	orphaned = `"labels":{"app":"a"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"other"}]`
	foreign  = `"labels":{"app":"a"},"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"other","uid":"other","controller":true}]`
	held     = `"finalizers":["example.com/theirs","metacontroller.io/compositecontroller-cc"]`
	letGo    = `{"finalized":true,"status":{"a":1}}`
)

func (s *syncTest) wantDid(want ...string) {
	s.api.t.Helper()
	if diff := cmp.Diff(want, s.api.did()); diff != "" {
		s.api.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// wantEvents checks the reasons of the events since the last check.
func (s *syncTest) wantEvents(want ...string) {
	s.api.t.Helper()
	var got []string
	for len(s.events.Events) > 0 {
		got = append(got, strings.Fields(<-s.events.Events)[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.api.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestFinalizerIsRemovedLast(t *testing.T) {
	api := startFakeAPI(t, string(parentWith(held)), childWith("old", owned))
	s := newSyncTest(t, api, withFinalize, withLabelSelector)
	if err := s.answered(phaseFinalize, letGo); err != nil {
		t.Fatal(err)
	}
	s.wantDid("DELETE configmaps/old", "PUT things/thing/status", "PUT things/thing")
	if got := api.stored("things/thing").GetFinalizers(); !slices.Equal(got, []string{"example.com/theirs"}) {
		t.Errorf("the finalizers are %v", got)
	}
}

func TestErrorKeepsFinalizer(t *testing.T) {
	for _, failing := range []string{"DELETE configmaps/old", "PUT things/thing/status"} {
		t.Run(failing, func(t *testing.T) {
			api := startFakeAPI(t, string(parentWith(held)), childWith("old", owned))
			s := newSyncTest(t, api, withFinalize, withLabelSelector)
			api.fails(failing, http.StatusInternalServerError, "no")
			if err := s.answered(phaseFinalize, letGo); err == nil || !strings.Contains(err.Error(), "no") {
				t.Errorf("the error is %v", err)
			}
			s.wantDid("DELETE configmaps/old", "PUT things/thing/status")
			if !hasFinalizer(api.stored("things/thing"), s.spec.finalizer) {
				t.Error("the finalizer is gone")
			}
		})
	}
}

func TestSetFinalizer(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTest(t, api, withFinalize)
	if err := s.setFinalizer(t.Context(), false, false); err != nil || len(api.did()) > 0 {
		t.Errorf("nothing was to be done: %v", err)
	}
	if err := s.setFinalizer(t.Context(), true, false); err != nil {
		t.Fatal(err)
	}
	if !hasFinalizer(s.parent, s.spec.finalizer) || !hasFinalizer(api.stored("things/thing"), s.spec.finalizer) || !s.changed {
		t.Error("the finalizer is not there, or not observed")
	}
	s.wantWritten()
	api.fails("PUT", http.StatusNotFound, "gone")
	if err := s.setFinalizer(t.Context(), false, true); err != nil || s.parent != nil {
		t.Errorf("the parent is %v, %v", s.parent, err)
	}
	s.wantAgain(true)
}

// wantAgain checks that what the API server does not find is looked for again.
func (s *syncTest) wantAgain(want bool) {
	s.api.t.Helper()
	if (s.again == RightsRetryInterval) != want {
		s.api.t.Errorf("it is synced again after %s, want that: %t", s.again, want)
	}
}

// wantWritten checks that the parent is not synced until the caches have observed the writes.
func (s *syncTest) wantWritten() {
	s.api.t.Helper()
	if s.written.IsReady(s.key) {
		s.api.t.Error("a write is not remembered: the next sync would decide from a stale cache")
	}
	s.written.Clear(s.key)
}

func TestWritesInConsistencyStore(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		s := newSyncTest(t, startFakeAPI(t, string(parentWith(""))))
		if !s.written.IsReady(s.key) {
			t.Error("nothing was written")
		}
	})
	for name, test := range map[string]struct {
		objects []string
		do      func(t *testing.T, s *syncTest) error
	}{
		"a creation": {nil, func(t *testing.T, s *syncTest) error {
			s.api.fails("status", http.StatusNotFound, "")
			return s.answered(phaseSync, answered)
		}},
		"an update": {[]string{childWith("a", owned), childWith("b", owned)}, func(t *testing.T, s *syncTest) error {
			s.api.fails("status", http.StatusNotFound, "")
			return s.answered(phaseSync, answered)
		}},
		"a status": {nil, func(t *testing.T, s *syncTest) error { return s.answered(phaseSync, `{"status":{"a":1}}`) }},
		"an adoption": {[]string{childWith("a", orphaned)}, func(t *testing.T, s *syncTest) error {
			_, err := s.gather(t.Context())
			return err
		}},
		"a release": {[]string{childWith("a", strings.Replace(owned, `"app":"a"`, `"app":"b"`, 1))}, func(t *testing.T, s *syncTest) error {
			_, err := s.gather(t.Context())
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSyncTest(t, startFakeAPI(t, append(test.objects, string(parentWith("")))...))
			if err := test.do(t, s); err != nil {
				t.Fatal(err)
			}
			if !s.changed {
				t.Error("nothing was changed")
			}
			s.wantWritten()
		})
	}
}

func TestCreateAlreadyExists(t *testing.T) {
	for name, test := range map[string]struct {
		child  string
		events []string
		after  bool // whether it is our own, which the cache does not show yet
	}{
		"another controller's": {child: childWith("a", foreign), events: []string{controller.ReasonResourceExists}},
		"without an owner":     {child: childWith("a", `"labels":{"app":"b"}`), events: []string{controller.ReasonResourceExists}},
		"gone by now":          {after: true},
		"ours":                 {child: strings.Replace(childWith("a", owned), `"5"`, `"500"`, 1), after: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := startFakeAPI(t, string(parentWith("")))
			s := newSyncTest(t, api)
			if test.child == "" {
				api.exists("configmaps/a")
			} else {
				api.put(test.child)
			}
			answer := answerOf(t, s.spec, s.parent, one)
			p, err := s.spec.decide(observed{parent: s.parent, of: s.of.parentType, selector: s.state.selector, called: phaseSync, answer: answer}, nil)
			if err != nil {
				t.Fatal(err)
			}
			p.status, s.state.history = nil, p.history
			after, err := s.apply(t.Context(), &p)
			if err != nil {
				t.Fatal(err)
			}
			s.wantDid("POST configmaps/a", "GET configmaps/a")
			s.wantEvents(test.events...)
			if after != controller.StaleCacheDelay { // our watch has not shown it yet
				t.Errorf("it is looked at again after %v, want %v", after, controller.StaleCacheDelay)
			}
			if !test.after {
				if _, err = s.apply(t.Context(), &p); err != nil {
					t.Fatal(err)
				}
				s.wantDid("POST configmaps/a") // it was looked at before
				s.wantEvents()
				if parents := s.blocked.unblock(location{0, "ns", "a"}); len(parents) != 1 || parents[0] != s.key {
					t.Errorf("when it goes, %v are synced", parents)
				}
			}
			if s.changed {
				t.Error("nothing was changed")
			}
			if name == "ours" {
				s.wantWritten() // an earlier process did
			}
		})
	}
}

func TestDeleteOfGoneChild(t *testing.T) {
	for _, code := range []int{http.StatusNotFound, http.StatusConflict} {
		api := startFakeAPI(t, string(parentWith("")), childWith("old", owned))
		s := newSyncTest(t, api)
		api.fails("DELETE", code, "gone")
		if err := s.answered(phaseSync, `{}`); err != nil {
			t.Error(err)
		}
		s.wantEvents()
		s.wantAgain(code == http.StatusNotFound)
	}
}

func TestUpdateOfGoneChild(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")), strings.Replace(childWith("a", owned), `"k":"1"`, `"k":"2"`, 1))
	s := newSyncTest(t, api)
	api.fails("PUT configmaps", http.StatusNotFound, "gone")
	if err := s.answered(phaseSync, one); err != nil {
		t.Error(err)
	}
	s.wantEvents()
	s.wantAgain(true)
}

func TestCreateInTerminatingNamespace(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTest(t, api)
	api.fails("POST", terminating, "the namespace is being terminated")
	if err := s.answered(phaseSync, one); err != nil {
		t.Error(err)
	}
	s.wantEvents()
}

// Deletions come before creations, and one type after the other, though those of one type are written concurrently.
func TestStepOrder(t *testing.T) {
	var objects, children []string
	for i := range 7 {
		objects = append(objects, childWith(fmt.Sprintf("old%d", i), owned))
	}
	for i := range 9 {
		children = append(children, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d","labels":{"app":"a"}}}`, i))
		children = append(children, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Plain","metadata":{"name":"p%d","labels":{"app":"a"}}}`, i))
	}
	api := startFakeAPI(t, append(objects, string(parentWith("")))...)
	s := newSyncTest(t, api, func(spec *v1alpha1.CompositeControllerSpec) {
		plains := v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "plains"}
		spec.ChildResources = append(spec.ChildResources, v1alpha1.CompositeControllerChildResourceRule{ResourceRule: plains})
	})
	if err := s.answered(phaseSync, `{"children":[`+strings.Join(children, ",")+`]}`); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, request := range api.did() {
		kind, _, _ := strings.Cut(request, "/")
		if len(order) == 0 || order[len(order)-1] != kind {
			order = append(order, kind)
		}
	}
	if diff := cmp.Diff([]string{"DELETE configmaps", "POST configmaps", "POST plains", "PUT things"}, order); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
}

func TestHistoryOfWrites(t *testing.T) {
	s := newSyncTest(t, startFakeAPI(t, string(parentWith("")), strings.Replace(childWith("a", owned), `"k":"1"`, `"k":"2"`, 1)))
	if err := s.answered(phaseSync, one); err != nil {
		t.Fatal(err)
	}
	if last := s.state.history.children.of(configMaps.key("ns", "a")).last; last.times != 1 {
		t.Errorf("the last attempt is %v: a fight would not be noticed", last)
	}
}

func TestStuckChildrenAreReported(t *testing.T) {
	s := newSyncTest(t, startFakeAPI(t, string(parentWith(""))))
	if _, err := s.apply(t.Context(), &plan{stuck: []childKey{configMaps.key("ns", "a")}}); err != nil {
		t.Fatal(err)
	}
	s.wantEvents(eventStuck)
}

func TestOneChildFails(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTest(t, api)
	api.fails("configmaps/b", http.StatusForbidden, "no policy allows it")
	err := s.answered(phaseSync, answered)
	if err == nil || !strings.Contains(err.Error(), "no policy allows it") || controller.IsPermanent(err) {
		t.Errorf("the error is %v", err)
	}
	s.wantDid("POST configmaps/b", "POST configmaps/a", "PUT things/thing/status")
	s.wantEvents(eventCreated)
}

func TestDeniedError(t *testing.T) {
	statuses := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things/status"}
	for request, want := range map[string]deniedError{
		"POST configmaps/b":       {of: configMaps, verb: "create"},
		"DELETE configmaps/old":   {of: configMaps, verb: "delete"},
		"PUT configmaps/a":        {of: configMaps, verb: "update"},
		"PUT things/thing/status": {of: Resource{GroupVersionResource: statuses, Kind: "Thing", Namespaced: true, Status: true}, verb: "update"},
	} {
		api := startFakeAPI(t, string(parentWith("")), childWith("old", owned), strings.Replace(childWith("a", owned), `"k":"1"`, `"k":"2"`, 1))
		s := newSyncTest(t, api)
		api.fails(request, http.StatusForbidden, `User "u" cannot do that`)
		err := s.answered(phaseSync, answered)
		denied, ok := errors.AsType[*deniedError](err)
		if !ok || denied.of != want.of || denied.verb != want.verb {
			t.Errorf("%s: the error is %#v", request, err)
		}
	}
}

func TestSlowStartAfterErrors(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTest(t, api)
	api.fails("POST", http.StatusForbidden, "quota")
	var children []string
	for i := range 20 {
		children = append(children, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%02d","labels":{"app":"a"}}}`, i))
	}
	err := s.answered(phaseSync, `{"children":[`+strings.Join(children, ",")+`]}`)
	if err == nil || strings.Count(err.Error(), "quota") != maxErrors || !strings.Contains(err.Error(), "and 15 more errors") {
		t.Errorf("the error is %v", err)
	}
	did := api.did()
	if len(did) != 21 || !slices.IsSorted(did[:20]) {
		t.Errorf("they were not tried one by one: %v", did)
	}
}

func TestJoinedErrors(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "thing", errors.New("old"))
	other, large := errors.New("other"), tooLarge("large")
	for name, test := range map[string]struct {
		errs             []error
		text             string
		quiet, permanent bool
	}{
		"none":                         {errs: []error{nil}},
		"one":                          {errs: []error{nil, other}, text: "other"},
		"conflicts":                    {errs: []error{conflict, nil, conflict}, text: conflict.Error() + "\n" + conflict.Error(), quiet: true},
		"conflict and failure":         {errs: []error{conflict, other}, text: conflict.Error() + "\nother"},
		"too large":                    {errs: []error{large, large}, text: "large\nlarge", permanent: true},
		"too large, then a failure":    {errs: []error{large, large, large, large, large, large, other}, text: "large\nlarge\nlarge\nlarge\nlarge\nand 2 more errors"},
		"too large and a conflict":     {errs: []error{large, conflict}, text: "large\n" + conflict.Error(), quiet: true},
		"more too large than reported": {errs: []error{large, large, large, large, large, large}, text: "large\nlarge\nlarge\nlarge\nlarge\nand 1 more errors", permanent: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := join(test.errs)
			if (err != nil) != (test.text != "") || err != nil && err.Error() != test.text {
				t.Errorf("the error is %v, want %q", err, test.text)
			}
			if quiet, permanent := controller.IsRetriedQuietly(err), controller.IsPermanent(err); quiet != test.quiet || permanent != test.permanent {
				t.Errorf("retried quietly: %t, permanent: %t; want %t, %t", quiet, permanent, test.quiet, test.permanent)
			}
		})
	}
}

func TestAdoption(t *testing.T) {
	for name, test := range map[string]struct {
		live  string // "" if it is gone
		adopt bool
	}{
		"it is":               {string(parentWith("")), true},
		"it is gone":          {"", false},
		"it is being deleted": {string(parentWith(deleting)), false},
		"it is another one":   {strings.Replace(string(parentWith("")), `"uid":"parent"`, `"uid":"another"`, 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			api := startFakeAPI(t, string(parentWith("")), childWith("a", orphaned))
			s := newSyncTest(t, api)
			api.drop("things/thing")
			if test.live != "" {
				api.put(test.live)
			}
			found, err := s.gather(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !test.adopt {
				s.wantDid("GET things/thing")
				if s.parent != nil {
					t.Error("the sync continues")
				}
				return
			}
			s.wantDid("GET things/thing", "PUT configmaps/a")
			adopted := api.stored("configmaps/a")
			if len(found.byKey) != 1 || adopted.ControllerUID() != "parent" ||
				!strings.Contains(adopted.JSON(), `"uid":"other"`) || !strings.Contains(adopted.JSON(), `"blockOwnerDeletion":true`) {
				t.Errorf("the children are %v, and the object is %s", found.byKey, adopted.JSON())
			}
			if len(found.groups) != 1 || len(found.groups[0].Objects) != 1 || found.groups[0].Kind != "ConfigMap" {
				t.Errorf("the hook would see %v", found.groups)
			}
		})
	}
}

func TestAdoptionError(t *testing.T) {
	for _, request := range []string{"GET things/thing", "PUT configmaps/a"} {
		api := startFakeAPI(t, string(parentWith("")), childWith("a", orphaned))
		s := newSyncTest(t, api)
		api.fails(request, http.StatusInternalServerError, "no")
		if found, err := s.gather(t.Context()); err == nil || found != nil {
			t.Errorf("%s: the error is %v", request, err)
		}
	}
	api := startFakeAPI(t, string(parentWith("")), childWith("a", orphaned))
	s := newSyncTest(t, api)
	api.fails("PUT configmaps/a", http.StatusNotFound, "gone")
	if found, err := s.gather(t.Context()); err != nil || len(found.byKey) != 0 {
		t.Errorf("an orphan that is gone: %v, %v", found, err)
	}
	s.wantAgain(true)
}

// TestLostStatusIsWrittenLater: the parent is gone, which the watch will show, or its type has no status subresource for a while, which no event shows.
func TestLostStatusIsWrittenLater(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTest(t, api)
	api.fails("PUT things/thing/status", http.StatusNotFound, "no such resource")
	if err := s.writeStatus(t.Context(), map[string]any{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	s.wantAgain(true)
}

// TestErrorsOfParentThatIsGone: a release has failed, too. There is no object to report it on.
func TestErrorsOfParentThatIsGone(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")), childWith("a", strings.Replace(owned, `"app":"a"`, `"app":"b"`, 1)), childWith("b", orphaned))
	s := newSyncTest(t, api)
	api.fails("PUT configmaps/a", http.StatusInternalServerError, "no")
	api.drop("things/thing")
	if _, err := s.gather(t.Context()); err != nil || s.parent != nil {
		t.Errorf("the error is %v, and the sync continues: %t", err, s.parent != nil)
	}
	s.wantAgain(true)
}

func TestRelease(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")), childWith("a", strings.Replace(owned, `"app":"a"`, `"app":"b"`, 1)), childWith("b", owned), childWith("c", foreign))
	s := newSyncTest(t, api)
	found, err := s.gather(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.wantDid("PUT configmaps/a")
	if released := api.stored("configmaps/a"); released.ControllerUID() != "" || strings.Contains(released.JSON(), "ownerReferences") {
		t.Errorf("it is %s", released.JSON())
	}
	if _, is := found.byKey[configMaps.key("ns", "b")]; !is || len(found.byKey) != 1 {
		t.Errorf("the children are %v", found.byKey)
	}
	api.fails("PUT", http.StatusInternalServerError, "no")
	if _, err := s.gather(t.Context()); err == nil {
		t.Error("a release that failed is no error")
	}
	s.wantAgain(false)
	api.fails("PUT", http.StatusNotFound, "gone")
	if _, err := s.gather(t.Context()); err != nil {
		t.Error(err)
	}
	s.wantAgain(true)
}

func TestObservedHash(t *testing.T) {
	observed := map[uint64]string{}
	for name, objects := range map[string][]string{
		"one child":        {string(parentWith("")), childWith("b", owned)},
		"another version":  {string(parentWith("")), childWith("b", owned), childWith("b", owned)},
		"another child":    {string(parentWith("")), childWith("c", owned)},
		"none":             {string(parentWith(""))},
		"a changed parent": {string(parentWith("")), childWith("b", owned), string(parentWith(""))},
	} {
		s := newSyncTest(t, startFakeAPI(t, objects...))
		found, err := s.gather(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		versions := found.versions(s.parent)
		if other, is := observed[versions]; is {
			t.Errorf("%s is the same as %s", name, other)
		}
		observed[versions] = name
	}
}

func TestRecreationNeedsDryRun(t *testing.T) {
	applied := strings.NewReplacer(`"labels":{"app":"a"},`, `"annotations":{"metacontroller.k8s.io/last-applied-configuration":`+
		`"{\"apiVersion\":\"v1\",\"data\":{\"k\":\"1000m\",\"other\":\"x\"},\"kind\":\"ConfigMap\",\"metadata\":{\"labels\":{\"app\":\"a\"},\"name\":\"a\",\"namespace\":\"ns\"}}"},"labels":{"app":"a"},`).Replace(owned)
	for name, test := range map[string]struct {
		data   string
		code   int
		did    []string
		events []string
	}{
		"as it would be again": {`{"k":"1","other":"x"}`, 0, nil, []string{eventStuck}},
		"edited":               {`{"k":"1","other":"mine"}`, 0, []string{"DELETE configmaps/a"}, []string{eventRecreated}},
		"refused":              {`{"k":"1","other":"mine"}`, http.StatusForbidden, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			api := startFakeAPI(t, string(parentWith("")), strings.Replace(childWith("a", applied), `{"k":"1"}`, test.data, 1))
			api.mutate = normalises
			if test.code > 0 {
				api.fails("dry run", test.code, "the webhook does not support it")
			}
			s := newSyncTest(t, api, withMethod(v1alpha1.ChildUpdateRecreate))
			err := s.answered(phaseSync, one)
			if refused := test.code > 0; refused != (err != nil) {
				t.Errorf("the error is %v", err)
			}
			s.wantDid(append(append([]string{"POST configmaps/a-00001 (dry run)"}, test.did...), "PUT things/thing/status")...)
			s.wantEvents(test.events...)
			s.state.history.parent = version{}
			if test.code == 0 && test.did == nil {
				if err := s.answered(phaseSync, one); err != nil {
					t.Error(err)
				}
				s.wantDid()
			}
		})
	}
}

func TestStatusTooLargeIsPermanent(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTest(t, api)
	api.fails("status", http.StatusInternalServerError, "etcdserver: request is too large")
	for i := range 2 {
		err := s.answered(phaseSync, `{"status":{"a":1}}`)
		if _, is := errors.AsType[*tooLargeError](err); !is || !controller.IsPermanent(err) {
			t.Errorf("time %d: the error is %v", i, err)
		}
	}
	s.wantDid("PUT things/thing/status")
	// With another error it is retried.
	api.fails("", http.StatusInternalServerError, "no")
	if err := s.answered(phaseSync, strings.Replace(one, `{"children"`, `{"status":{"a":1},"children"`, 1)); err == nil || controller.IsPermanent(err) {
		t.Errorf("the error is %v", err)
	}
}

func TestStatusOfGoneParent(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTest(t, api)
	api.fails("status", http.StatusNotFound, "gone")
	if err := s.answered(phaseSync, `{}`); err != nil {
		t.Error(err)
	}
}
