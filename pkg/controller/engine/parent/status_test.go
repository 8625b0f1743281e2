// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
)

func TestStatusDiff(t *testing.T) {
	for name, test := range map[string]struct {
		observed, answer string
		want             map[string]any
	}{
		"none and none":                      {``, `{}`, map[string]any{"observedGeneration": int64(3)}},
		"null clears it":                     {`{"a":1,"observedGeneration":3}`, `{"status":null}`, map[string]any{"observedGeneration": int64(3)}},
		"the same":                           {`{"a":1,"observedGeneration":3}`, `{"status":{"a":1}}`, nil},
		"the same number, written otherwise": {`{"a":1,"observedGeneration":3}`, `{"status":{"a":1.0}}`, nil},
		"a null is no difference":            {`{"a":1,"observedGeneration":3}`, `{"status":{"a":1,"b":null}}`, nil},
		"another generation":                 {`{"a":1,"observedGeneration":2}`, `{"status":{"a":1}}`, map[string]any{"a": int64(1), "observedGeneration": int64(3)}},
		"empty is not the same as none":      {`{"observedGeneration":3}`, `{"status":{"a":[]}}`, map[string]any{"a": []any{}, "observedGeneration": int64(3)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.observed != "" {
				w.parent = text(strings.TrimSuffix(string(w.parent), "}") + `,"status":` + test.observed + `}`)
			}
			p, err := w.decide(phaseSync, test.answer)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, p.status); diff != "" {
				t.Errorf("another status is written (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIgnoredStatusIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	p, err := w.decide(phaseSync, `{"status":{"unknown":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	w.history = p.history
	w.history.recordStatusDone(p.status, "1", w.parent)
	w.want(`{"status":{"unknown":1}}`)
	w.want(`{"status":{"unknown":2}}`, "status")
}

func TestHookFailureReason(t *testing.T) {
	_, invalidAnswer := hook.DecodeComposite([]byte(`{"children":[null]}`), hook.Rules{Phase: "sync", Version: hook.V1})
	for want, err := range map[string]error{
		"HookChildInvalid":     fmt.Errorf("syncing: %w", invalidAnswer),
		"HookChildNotSelected": fmt.Errorf("syncing: %w", &unselectedError{"ConfigMap a", "app=a"}),
	} {
		if got := hookProblem(err); got == nil || got.Reason != want || got.Message != err.Error() {
			t.Errorf("%v is %+v, want %s", err, got, want)
		}
	}
	if got := hookProblem(fmt.Errorf("the API server is away")); got != nil {
		t.Errorf("an error that is not the hook's is %+v", *got)
	}
}

func TestMissingRightMessage(t *testing.T) {
	message := forbidden(things, "list", "watch").Message
	for _, part := range []string{`apiGroups: ["example.com"]`, `resources: ["things"]`, `verbs: [list, watch]`, "millwright.dev/aggregate-to-engine=true"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q lacks %q", message, part)
		}
	}
}

func TestEventsAreCombined(t *testing.T) {
	var childEvents []childEvent
	for i := range 12 {
		childEvents = append(childEvents, childEventOf(childStep{verb: verbCreate, child: configMaps.key("ns", fmt.Sprint("m", i))}))
	}
	childEvents = append(childEvents, childEventOf(childStep{verb: verbDelete, child: configMaps.key("ns", "old")}),
		childEvent{controller.ReasonResourceExists, configMaps.key("ns", "theirs")})
	want := []controller.RecordEvent{
		{Type: "Normal", Reason: "ChildrenCreated", Message: "Created 12 ConfigMap: ns/m0, ns/m1, ns/m2, ns/m3, ns/m4, ns/m5, ns/m6, ns/m7, ns/m8, ns/m9 and 2 more"},
		{Type: "Normal", Reason: "ChildrenDeleted", Message: "Deleted ConfigMap ns/old"},
		{Type: "Warning", Reason: "ErrResourceExists", Message: "Not created, because an object of that name exists that this parent does not own: ConfigMap ns/theirs"},
	}
	if diff := cmp.Diff(want, eventsOf(childEvents)); diff != "" {
		t.Errorf("other events (-want +got):\n%s", diff)
	}
	if got := syncError(fmt.Errorf("it fails")); got != (controller.RecordEvent{Type: "Warning", Reason: "SyncError", Message: "Sync error: it fails"}) {
		t.Errorf("the event of an error is %+v", got)
	}
}

func TestHookConfig(t *testing.T) {
	var configured v1alpha1.CompositeControllerHooks
	err := json.Unmarshal([]byte(`{"sync":{"version":"v2","webhook":{"url":"https://h/s","timeout":"3s","path":"/p",
		"service":{"name":"n","namespace":"ns","port":8443,"protocol":"https"},"etag":{"enabled":true,"cacheTimeoutSeconds":5},
		"responseUnMarshallMode":"loose","caBundle":{"configMapRef":{"name":"ca","namespace":"ns","key":"k"}},
		"clientTLS":{"secretRef":{"name":"c","namespace":"ns"},"certKey":"crt","privateKeyKey":"key"},
		"authorization":{"type":"Token","secretRef":{"name":"a","namespace":"ns","key":"t"}},
		"basicAuth":{"secretRef":{"name":"b","namespace":"ns"},"usernameKey":"u","passwordKey":"p"}}}}`), &configured)
	if err != nil {
		t.Fatal(err)
	}
	cc := controllerWith(func(s *v1alpha1.CompositeControllerSpec) {
		s.Hooks = &configured
		s.EndpointConfigs = []v1alpha1.EndpointConfig{{Host: "h", WebhookAccess: v1alpha1.WebhookAccess{CABundle: &v1alpha1.CABundle{Inline: ptr("pem")}}}}
	})
	want := hook.Config{
		Phase: "sync", Version: hook.V2, URL: "https://h/s", Path: ptr("/p"), Timeout: ptr(3 * time.Second), Mode: hook.Loose,
		Service: &hook.Service{Name: "n", Namespace: "ns", Port: ptr(int32(8443)), Protocol: ptr("https")},
		ETag:    &hook.ETag{CacheTimeout: 5 * time.Second},
		Access: hook.Access{
			CABundle:      &hook.CABundle{ConfigMapRef: &hook.KeyRef{Namespace: "ns", Name: "ca", Key: "k"}},
			ClientTLS:     &hook.ClientTLS{Namespace: "ns", Name: "c", CertKey: "crt", PrivateKeyKey: "key"},
			Authorization: &hook.Authorization{Type: "Token", SecretRef: hook.KeyRef{Namespace: "ns", Name: "a", Key: "t"}},
			BasicAuth:     &hook.BasicAuth{Namespace: "ns", Name: "b", UsernameKey: "u", PasswordKey: "p"},
		},
		Endpoints: []hook.Endpoint{{Host: "h", Access: hook.Access{CABundle: &hook.CABundle{Inline: ptr("pem")}}}},
	}
	if diff := cmp.Diff(want, FromComposite(cc).hookConfig(phaseSync)); diff != "" {
		t.Errorf("the hook is configured otherwise (-want +got):\n%s", diff)
	}
}

func TestControllerJSON(t *testing.T) {
	cc := controllerWith()
	before, err := FromComposite(cc).controllerJSON()
	if err != nil {
		t.Fatal(err)
	}
	cc.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	cc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
	after, err := FromComposite(cc).controllerJSON()
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) || !strings.Contains(string(after), `"status":{}`) ||
		!strings.HasPrefix(string(after), `{"kind":"CompositeController","apiVersion":"metacontroller.k8s.io/v1alpha1"`) {
		t.Errorf("hooks see %s", after)
	}
}

func TestRejectionIsReported(t *testing.T) {
	of := schema.GroupKind{Kind: "ConfigMap"}
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"an invalid child":         {asRejected(hook.ReasonInvalidChild, fmt.Errorf("create a: %w", apierrors.NewInvalid(of, "a", nil))), "HookChildInvalid"},
		"a child that is no child": {asRejected(hook.ReasonInvalidChild, apierrors.NewBadRequest("cannot be handled")), "HookChildInvalid"},
		"an invalid status":        {asRejected(hook.ReasonInvalidResponse, apierrors.NewInvalid(of, "a", nil)), "HookResponseInvalid"},
		"an untyped child": {asRejected(hook.ReasonInvalidChild, apierrors.NewGenericServerResponse(500, "patch", schema.GroupResource{}, "a",
			"failed to create typed patch object (ns/a; v1, Kind=Thing): .spec.a: field not declared in schema", 0, false)), "HookChildInvalid"},
		"an outage":  {asRejected(hook.ReasonInvalidChild, apierrors.NewInternalError(errors.New("down"))), ""},
		"a conflict": {asRejected(hook.ReasonInvalidChild, apierrors.NewConflict(schema.GroupResource{}, "a", nil)), ""},
		"no answer":  {asRejected(hook.ReasonInvalidChild, errors.New("EOF")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			problem := problemOf(join([]error{nil, test.err}))
			if test.reason == "" && problem != nil || test.reason != "" && (problem == nil || problem.Reason != test.reason) {
				t.Errorf("the problem is %+v, want %q", problem, test.reason)
			}
		})
	}
}

func TestRetryAfterLimit(t *testing.T) {
	for _, asked := range []time.Duration{time.Second, 54 * time.Second, time.Minute, time.Hour} {
		for range 100 {
			if got := jitter(asked); got > time.Minute || got < min(asked, 54*time.Second) {
				t.Fatalf("asked for %s, the parent waits %s", asked, got)
			}
		}
	}
}

// TestStatusOfKubernetes: other components write the status of a Namespace. The hook changes the fields that it gives.
func TestStatusOfKubernetes(t *testing.T) {
	const phase = `{"phase":"Active","load":{"a":1}}`
	for name, test := range map[string]struct {
		answer string
		want   map[string]any
	}{
		"no status":       {`{}`, nil},
		"null":            {`{"status":null}`, nil},
		"an empty status": {`{"status":{}}`, nil},
		"as it is":        {`{"status":{"load":{"a":1.0}}}`, nil},
		"another field":   {`{"status":{"load":{"b":2}}}`, map[string]any{"phase": "Active", "load": map[string]any{"a": int64(1), "b": int64(2)}}},
		"a field less":    {`{"status":{"load":{"a":null}}}`, map[string]any{"phase": "Active", "load": map[string]any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *v1alpha1.CompositeControllerSpec) {
				s.ParentResource.ResourceRule = v1alpha1.ResourceRule{APIVersion: "v1", Resource: "namespaces"}
				s.GenerateSelector = ptr(true)
			})
			w.parent = text(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns","uid":"parent","resourceVersion":"1"},"status":` + phase + `}`)
			p, err := w.decide(phaseSync, test.answer)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, p.status); diff != "" {
				t.Errorf("another status is written (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatusOfKubernetesRepairs: what others write of the status does not slow the hook's writes, and what undoes them does.
func TestStatusOfKubernetesRepairs(t *testing.T) {
	w := newWorld(t, func(s *v1alpha1.CompositeControllerSpec) {
		s.ParentResource.ResourceRule = v1alpha1.ResourceRule{APIVersion: "v1", Resource: "namespaces"}
		s.GenerateSelector = ptr(true)
	})
	w.parent = text(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns","uid":"parent","resourceVersion":"1"}}`)
	for i := range 100 {
		w.setStatus(map[string]any{"theirs": i, "mine": i - 1})
		w.want(fmt.Sprintf(`{"status":{"mine":%d}}`, i), "status")
	}
	writes := 0
	for i := range 100 {
		w.setStatus(map[string]any{"theirs": i})
		writes += len(w.sync(`{"status":{"mine":99}}`))
	}
	if writes > 20 || writes == 0 {
		t.Errorf("a field that another client removes each time was written %d of 100 times in one moment", writes)
	}
}

func TestNoStatusOfDyingParent(t *testing.T) {
	for name, test := range map[string]struct {
		metadata string
		edits    []edit
		want     bool
	}{
		"left to the garbage collector": {deleting, nil, false},
		"finalized by others":           {deleting + `,"finalizers":["example.com/theirs"]`, []edit{withFinalize}, false},
		"finalized by us":               {deleting + "," + held, []edit{withFinalize}, true},
	} {
		w := newWorld(t, test.edits...)
		w.parent = parentWith(test.metadata)
		p, err := w.decide(phaseSync, `{"status":{"a":1}}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.status != nil; got != test.want {
			t.Errorf("%s: the status is written: %t", name, got)
		}
	}
}
