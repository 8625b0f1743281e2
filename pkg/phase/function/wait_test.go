// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// waitWorld is a Wait or WaitV2, and the cluster that it waits for.
type waitWorld struct {
	*Wait
	cluster *dynamicfake.FakeDynamicClient
	server  *fakeServer
	woken   []phase.ID
}

func newWaitWorld(language blueprint.ConditionLanguage, objects ...runtime.Object) *waitWorld {
	w := &waitWorld{cluster: dynamicfake.NewSimpleDynamicClient(scheme.Scheme, objects...), server: serverWith(served("v1", "Pod", "ConfigMap", "Secret", "Node"))}
	w.Wait = &Wait{
		Client: w.cluster, Mapper: NewMapper(w.server), Language: language, Wake: func(id phase.ID) { w.woken = append(w.woken, id) }, pace: &pace{},
	}
	return w
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name}, Data: data}
}

// condition returns a condition of WaitV2 on a ConfigMap: its value of the key is true.
func condition(name, key string) map[string]any {
	return map[string]any{
		"condition":       "{{ .data." + key + " }}",
		"objectReference": map[string]any{"apiVersion": "v1", "resource": "configmaps", "namespace": "db", "name": name},
	}
}

func waitFor(timeout string, conditions map[string]any) map[string]any {
	return map[string]any{"timeout": timeout, "conditions": conditions}
}

func validated(t *testing.T, function phase.Function, args map[string]any) phase.Call {
	t.Helper()
	call := phase.Call{ID: phase.ID{Namespace: "ops", Name: "backup", UID: "u1"}, Args: args}
	intent, err := function.Validate(t.Context(), call)
	if err != nil {
		t.Fatalf("validating: %v", err)
	}
	// It goes through the status.
	content, err := json.Marshal(intent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &call.Intent); err != nil {
		t.Fatal(err)
	}
	call.StartTime = time.Now().Truncate(time.Second)
	return call
}

// untilEnd polls as the controller does, and returns the last state and the number of polls.
func untilEnd(t *testing.T, function phase.Function, call phase.Call) (phase.Observation, int) {
	t.Helper()
	observed, err := function.Start(t.Context(), call)
	for polls := 1; ; polls++ {
		if err != nil {
			t.Fatal(err)
		}
		if observed.State != phase.Running {
			return observed, polls
		}
		if observed.PollAfter <= 0 {
			t.Fatal("it is not polled again")
		}
		time.Sleep(observed.PollAfter)
		observed, err = function.Poll(t.Context(), call)
	}
}

func TestConditions(t *testing.T) {
	yes, no, missing := condition("there", "yes"), condition("there", "no"), condition("missing", "yes")
	list := func(items ...any) []any { return items }
	for name, test := range map[string]struct {
		anyOf, allOf []any
		want         bool
		why          string
	}{
		"one of any":            {anyOf: list(no, yes), want: true},
		"none of any":           {anyOf: list(no, no), why: `conditions.anyOf[0] on configmaps db/there does not hold: it gives "false"; conditions.anyOf[1] on`},
		"all of all":            {allOf: list(yes, yes), want: true},
		"one of all":            {allOf: list(yes, no), why: "conditions.allOf[1] on configmaps db/there does not hold"},
		"any without all":       {anyOf: list(yes), allOf: list(no), want: true},
		"all without any":       {anyOf: list(no), allOf: list(yes), want: true},
		"neither":               {anyOf: list(no), allOf: list(yes, no), why: "conditions.allOf[1] on configmaps db/there does not hold"},
		"missing after one":     {anyOf: list(yes, missing), want: true},
		"missing before one":    {anyOf: list(missing, yes), why: `conditions.anyOf[0] on configmaps db/missing: configmaps "missing" not found`},
		"missing ends it":       {anyOf: list(missing), allOf: list(yes), why: "not found"},
		"missing among all":     {allOf: list(yes, missing), why: "not found"},
		"false before missing":  {allOf: list(no, missing), why: "conditions.allOf[0] on configmaps db/there does not hold"},
		"one with blanks":       {anyOf: list(condition("there", "blanks")), want: true},
		"what is not there":     {anyOf: list(condition("there", "nothing")), why: `it gives "<no value>"`},
		"a lot, which is short": {anyOf: list(condition("there", "long")), why: `xxx..."`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaitWorld(blueprint.WaitV2Language{}, configMap("there", map[string]string{
					"yes": "true", "no": "false", "blanks": "\n true ", "long": strings.Repeat("x", 10000),
				}))
				conditions := map[string]any{}
				if test.anyOf != nil {
					conditions["anyOf"] = test.anyOf
				}
				if test.allOf != nil {
					conditions["allOf"] = test.allOf
				}
				call := validated(t, w, waitFor("0s", conditions))
				observed, err := w.Start(t.Context(), call)
				if err != nil {
					t.Fatal(err)
				}
				if (observed.State == phase.Succeeded) != test.want || !strings.Contains(observed.Message, test.why) || len(observed.Message) > 1000 {
					t.Errorf("it is %+v", observed)
				}
			})
		})
	}
}

func TestWaitPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitV2Language{})
		call := validated(t, w, waitFor("10m", map[string]any{"anyOf": []any{condition("later", "yes")}}))
		const after = 30 * time.Second
		time.AfterFunc(after, func() {
			later := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "later"}, "data": map[string]any{"yes": "true"},
			}}
			_, _ = w.cluster.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("db").Create(t.Context(), later, metav1.CreateOptions{})
			w.cluster.ClearActions()
		})
		began := time.Now()
		observed, polls := untilEnd(t, w, call)
		if took := time.Since(began); observed.State != phase.Succeeded || took < after || took > after+maxConditionPoll {
			t.Errorf("after %s it is %+v", took, observed)
		}
		if polls > 40 {
			t.Errorf("it polled %d times in 30 s", polls)
		}
		for _, action := range w.cluster.Actions() {
			if action.GetVerb() != "get" {
				t.Errorf("it does more than to look: %v", action)
			}
		}
	})
}

func TestWaitTimeoutMessage(t *testing.T) {
	const ending = ", after 3s: Failed to wait for the condition to be met: Context done while polling: context deadline exceeded"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "there", errors.New("no rule"))
	for name, test := range map[string]struct {
		condition map[string]any
		refused   error
		want      string
	}{
		"false":   {condition("there", "no"), nil, `conditions.allOf[0] on configmaps db/there does not hold: it gives "false"`},
		"missing": {condition("missing", "no"), nil, `conditions.allOf[0] on configmaps db/missing: configmaps "missing" not found`},
		"forbidden": {
			condition("there", "yes"), forbidden,
			`conditions.allOf[0] on configmaps db/there: configmaps "there" is forbidden: no rule`,
		},
		"unknown kind": {
			map[string]any{"condition": "true", "objectReference": map[string]any{
				"group": "acme.example", "apiVersion": "v1", "resource": "widgets", "name": "w", "namespace": "db",
			}}, nil,
			`conditions.allOf[0] on widgets.acme.example db/w: no matches for acme.example/v1, Resource=widgets`,
		},
		"evaluation": {
			map[string]any{"condition": "{{ .data.no.x }}", "objectReference": condition("there", "no")["objectReference"]}, nil,
			`conditions.allOf[0] on configmaps db/there: Failed to render template: can't evaluate field x in type interface {} (argument conditions.allOf[0], at {{ .data.no.x }})`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaitWorld(blueprint.WaitV2Language{}, configMap("there", map[string]string{"yes": "true", "no": "false"}))
				if test.refused != nil {
					w.cluster.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.refused })
				}
				time.Sleep(900 * time.Millisecond) // the status has whole seconds only
				call := validated(t, w, waitFor("3s", map[string]any{"allOf": []any{test.condition}}))
				began := time.Now()
				observed, _ := untilEnd(t, w, call)
				if took := time.Since(began); took != 3*time.Second {
					t.Errorf("it ends after %s", took)
				}
				if diff := cmp.Diff(phase.Observation{State: phase.Failed, Message: test.want + ending}, observed); diff != "" {
					t.Errorf("its end (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestTimeoutAcrossProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := configMap("there", map[string]string{"no": "false"})
		call := validated(t, newWaitWorld(blueprint.WaitV2Language{}, objects), waitFor("10s", map[string]any{"anyOf": []any{condition("there", "no")}}))
		time.Sleep(9 * time.Second)
		began := time.Now()
		observed, _ := untilEnd(t, newWaitWorld(blueprint.WaitV2Language{}, objects), call)
		if took := time.Since(began); observed.State != phase.Failed || took != time.Second {
			t.Errorf("the other process waits %s more: %+v", took, observed)
		}
	})
}

func TestWaitSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitV2Language{})
		call := validated(t, w, waitFor("0s", map[string]any{"anyOf": []any{condition("missing", "yes")}}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if observed, err := w.Poll(ctx, call); err == nil {
			t.Errorf("it has ended: %+v", observed)
		}
	})
}

func TestKindServedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitV2Language{})
		why := func() string {
			_, why, _ := w.newEvaluation(t.Context(), "ops").evaluate(t.Context(), blueprint.Conditions{AnyOf: []blueprint.Condition{{
				Condition: "true", ObjectReference: blueprint.ObjectReference{Group: "acme.example", APIVersion: "v1", Resource: "widgets", Name: "w"},
			}}})
			return why
		}
		w.server.down["acme.example/v1"] = apierrors.NewServiceUnavailable("no endpoints")
		wantText(t, "its server is down", why(), "waiting for the API group acme.example to be available: no endpoints")
		delete(w.server.down, "acme.example/v1")
		wantText(t, "it is not served", why(), "no matches for acme.example/v1, Resource=widgets")
		w.server.Resources = append(w.server.Resources, served("acme.example/v1", "Widget"))
		wantText(t, "it is served", why(), `widgets.acme.example "w" not found`)
	})
}

func TestSecretsAreNotShown(t *testing.T) {
	for _, language := range []blueprint.ConditionLanguage{blueprint.WaitLanguage{}, blueprint.WaitV2Language{}} {
		for _, text := range []string{
			`{{ .data.password }}`, `{ $.data.password }`, `{{ fail "{ $.data.password }" }}`, `{{ "{ $.data.password }" | index 3 }}`,
		} {
			synctest.Test(t, func(t *testing.T) {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "s"}, Data: map[string][]byte{"password": []byte("hunter2")}}
				w := newWaitWorld(language, secret)
				_, why, _ := w.newEvaluation(t.Context(), "ops").evaluate(t.Context(), blueprint.Conditions{AnyOf: []blueprint.Condition{{
					Condition:       text,
					ObjectReference: blueprint.ObjectReference{APIVersion: "v1", Resource: "secrets", Namespace: "db", Name: "s"},
				}}})
				if why == "" || strings.Contains(why, "aHVudGVyMg") || strings.Contains(why, "hunter2") {
					t.Errorf("%s: %s", text, why)
				}
			})
		}
	}
}

func TestInvalidWait(t *testing.T) {
	reference := map[string]any{"apiVersion": "v1", "resource": "pods", "name": "p"}
	one := func(condition string, reference map[string]any) map[string]any {
		return map[string]any{"allOf": []any{map[string]any{"condition": condition, "objectReference": reference}}}
	}
	for want, args := range map[string]map[string]any{
		"neither anyOf nor allOf":      waitFor("1s", map[string]any{}),
		"conditions.allOf[0]":          waitFor("1s", one("{{ if }}", reference)),
		"has no condition":             waitFor("1s", one("", reference)),
		"missing one or more":          waitFor("1s", one("true", map[string]any{"apiVersion": "v1", "resource": "pods"})),
		"decoding arguments":           waitFor("soon", one("true", reference)),
		`there is no function "upper"`: waitFor("1s", one("{{ upper .x }}", reference)),
	} {
		w := newWaitWorld(blueprint.WaitV2Language{})
		_, err := w.Validate(t.Context(), phase.Call{Args: args})
		if message, ok := phase.FailureOf(err); !ok || !strings.Contains(message, want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
		if len(w.cluster.Actions()) > 0 {
			t.Errorf("it asks: %v", w.cluster.Actions())
		}
	}
}

func TestCancelWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitV2Language{})
		call := validated(t, w, waitFor("1h", map[string]any{"anyOf": []any{condition("missing", "yes")}}))
		for range 2 {
			if err := w.Cancel(t.Context(), phase.Call{ID: call.ID}); err != nil {
				t.Fatal(err)
			}
		}
		if observed, err := w.Poll(t.Context(), call); err != nil || observed.State != phase.Stopped || len(w.woken) == 0 {
			t.Errorf("%+v, %v, woken %v", observed, err, w.woken)
		}
		time.Sleep(stoppedFor)
		synctest.Wait()
		if w.stopped.has(call.ID) {
			t.Error("it is remembered for ever")
		}
	})
}
