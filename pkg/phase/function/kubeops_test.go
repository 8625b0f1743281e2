// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/phase"
)

// opsWorld is a ConfigMap ns/c on an API server that, unlike the fake one, checks resourceVersions.
type opsWorld struct {
	*testing.T
	function *KubeOps
	object   *unstructured.Unstructured
	// answerIsLost: the next patch takes effect, and its answer is lost.
	answerIsLost bool
}

func newOpsWorld(t *testing.T) *opsWorld {
	t.Helper()
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	w := &opsWorld{T: t, function: &KubeOps{Client: client, Mapper: NewMapper(serverWith(served("v1", "ConfigMap"))), Wake: func(phase.ID) {}, pace: &pace{}}}
	w.object = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "ns", "name": "c", "uid": "c-uid", "resourceVersion": "10"},
		"data":     map[string]any{"value": "first"},
	}}
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, w.object.DeepCopy(), nil
	})
	client.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := w.patch(action.(clienttesting.PatchAction).GetPatch())
		return true, w.object.DeepCopy(), err
	})
	return w
}

func (w *opsWorld) patch(body []byte) error {
	var patch struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Data     map[string]string `json:"data"`
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return err
	}
	if patch.Metadata.ResourceVersion != w.object.GetResourceVersion() || patch.Metadata.UID != w.object.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "c", errors.New("it has changed"))
	}
	w.change(patch.Data["value"], patch.Metadata.Annotations)
	if w.answerIsLost {
		w.answerIsLost = false
		return errors.New("the answer is lost")
	}
	return nil
}

// change changes the ConfigMap as another client.
func (w *opsWorld) change(value string, annotations map[string]string) {
	version, _ := strconv.Atoi(w.object.GetResourceVersion())
	w.object.SetResourceVersion(strconv.Itoa(version + 1))
	w.object.SetAnnotations(annotations)
	_ = unstructured.SetNestedField(w.object.Object, value, "data", "value") // data is a map
}

func (w *opsWorld) value() string {
	value, _, _ := unstructured.NestedString(w.object.Object, "data", "value")
	return value
}

// begin begins the phase with this index, which patches the value.
func (w *opsWorld) begin(index int, value string) phase.Call {
	w.Helper()
	call := phase.Call{ID: phase.ID{UID: "set", Phase: index}, Args: map[string]any{
		"operation": "patch", "namespace": "ns", "spec": "data: {value: " + value + "}",
		"objectReference": map[string]any{"apiVersion": "v1", "resource": "configmaps", "name": "c"},
	}}
	intent, err := w.function.Validate(w.Context(), call)
	if err != nil {
		w.Fatal(err)
	}
	call.Intent = intent
	return call
}

func (w *opsWorld) start(call phase.Call) phase.Observation {
	w.Helper()
	observed, err := w.function.Start(w.Context(), call)
	if err != nil {
		w.Fatal(err)
	}
	return observed
}

func TestLatePatch(t *testing.T) {
	w := newOpsWorld(t)
	first := w.begin(0, "second")
	if got := w.start(first); got.State != phase.Succeeded {
		t.Fatalf("it is %q: %s", got.State, got.Message)
	}
	if got := w.start(w.begin(1, "third")); got.State != phase.Succeeded {
		t.Fatalf("it is %q: %s", got.State, got.Message)
	}
	w.start(first)
	if got := w.value(); got != "third" {
		t.Errorf("a late patch of the first phase has changed what the second one did: the value is %q", got)
	}
}

func TestLostPatchIsNotRepeated(t *testing.T) {
	w := newOpsWorld(t)
	call := w.begin(0, "second")
	w.answerIsLost = true
	if _, err := w.function.Start(t.Context(), call); err == nil {
		t.Fatal("the answer was not lost")
	}
	version := w.object.GetResourceVersion()
	if got := w.start(call); got.State != phase.Succeeded || got.Output["name"] != "c" {
		t.Errorf("it is %q: %s, with the output %v", got.State, got.Message, got.Output)
	}
	if w.object.GetResourceVersion() != version {
		t.Error("it was patched twice")
	}
}

func TestPatchChangeIsRecordedFirst(t *testing.T) {
	w := newOpsWorld(t)
	call := w.begin(0, "second")
	w.change("another's", nil)
	ready := w.start(call)
	if ready.State != phase.Ready || w.value() != "another's" {
		t.Fatalf("it is %q, and the value is %q", ready.State, w.value())
	}
	want := []any{map[string]any{
		"group": "", "apiVersion": "v1", "resource": "configmaps", "namespace": "ns", "name": "c", "uid": "c-uid", "resourceVersion": "11",
	}}
	if diff := cmp.Diff(want, ready.Intent["objects"]); diff != "" {
		t.Errorf("what is to be recorded (-want +got):\n%s", diff)
	}
	call.Intent = ready.Intent
	if got := w.start(call); got.State != phase.Succeeded || w.value() != "second" {
		t.Errorf("it is %q: %s, and the value is %q", got.State, got.Message, w.value())
	}
}

func TestPatchOfRecreatedObjectFails(t *testing.T) {
	w := newOpsWorld(t)
	call := w.begin(0, "second")
	w.object.SetUID("another")
	if got := w.start(call); got.State != phase.Failed || got.Message != `configmaps "c" not found` || w.value() != "first" {
		t.Errorf("it is %q: %s, and the value is %q", got.State, got.Message, w.value())
	}
}

// A version that is no longer served does not mean that its objects are gone.
func TestDeletedInAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOpsWorld(t)
		server := serverWith(served("g.example.com/v1", "Gadget"))
		client := fake.NewSimpleDynamicClient(runtime.NewScheme())
		w.function.Client, w.function.Mapper = client, NewMapper(server)
		held := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "uid": "x-uid", "finalizers": []any{"of/others"}}}}
		deleted := ""
		client.PrependReactor("*", "gadgets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			version := action.GetResource().Version
			if server.Resources[0].GroupVersion != "g.example.com/"+version {
				return true, nil, apierrors.NewGenericServerResponse(404, action.GetVerb(), gadgets(version).GroupResource(), "x", "404 page not found", 0, true)
			}
			if action.GetVerb() == "delete" {
				deleted = version
				held.SetDeletionTimestamp(ptr.To(metav1.Now()))
			}
			return true, held.DeepCopy(), nil
		})
		call := phase.Call{ID: phase.ID{UID: "set"}, Args: map[string]any{"operation": "delete", "objectReference": map[string]any{
			"group": "g.example.com", "apiVersion": "v1", "resource": "gadgets", "name": "x", "namespace": "ns",
		}}}
		intent, err := w.function.Validate(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		call.Intent = intent
		time.Sleep(time.Second)
		server.Resources[0] = served("g.example.com/v2", "Gadget")
		if got := w.start(call); got.State != phase.Running || deleted != "v2" {
			t.Errorf("it is deleted in version %q, and the phase is %s: %s", deleted, got.State, got.Message)
		}
		time.Sleep(time.Second)
		server.Resources[0] = served("other.example.com/v1", "Other")
		if got, err := w.function.Poll(t.Context(), call); err != nil || got.State != phase.Succeeded {
			t.Errorf("its kind is gone, and the phase is %s: %v", got.State, err)
		}
	})
}

func TestPatchKeepsIntegers(t *testing.T) {
	body, err := patchOf(t.Context(), "spec: {number: 9007199254740993}", mark(testID), target{})
	if err != nil || !strings.Contains(string(body), `"number":9007199254740993`) {
		t.Errorf("got %s, %v", body, err)
	}
}

// Another client has put on the object what it could compute, so that the phase would take its own effect for done.
func TestForgedMarkIsNotThePhases(t *testing.T) {
	w := newOpsWorld(t)
	call := w.begin(0, "second")
	w.change("forged", map[string]string{phase.AnnotationPhase: mark(call.ID)})
	if got := w.start(call); got.State != phase.Ready {
		t.Fatalf("it is %q: %s", got.State, got.Message)
	} else {
		call.Intent = got.Intent
	}
	if got := w.start(call); got.State != phase.Succeeded || w.value() != "second" {
		t.Errorf("it is %q: %s, and the value is %q", got.State, got.Message, w.value())
	}

	intent := kubeOpsIntent{Operation: "create", Nonce: "n"}
	if got := w.function.observe(call.ID, intent, target{Resource: "configmaps", Name: "c"}, w.object); got.State != phase.Failed {
		t.Errorf("an object that another client has created is taken for the phase's: %q", got.State)
	}
	intent.Nonce = "" // as an earlier release has recorded it
	w.object.SetAnnotations(map[string]string{phase.AnnotationPhase: mark(call.ID)})
	if got := w.function.observe(call.ID, intent, target{Resource: "configmaps", Name: "c"}, w.object); got.State != phase.Succeeded {
		t.Errorf("what an earlier release has created is %q: %s", got.State, got.Message)
	}
}
