// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/phase"
)

var (
	appKind      = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	apps         = appKind.GroupVersion().WithResource("apps")
	platformKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Platform"}
)

// ownerWorld is a Deployment shop/web of two replicas that the App of that name owns and restores, which a Platform owns.
type ownerWorld struct {
	*ScaleWorkload
	t       *testing.T
	client  *fake.Clientset
	objects *dynamicfake.FakeDynamicClient
	// size of the App, in this version, which has a scale subresource unless that is not served.
	size    int64
	version int
	puts    int
	denied  map[string]error // by verb and resource
	// lost: the answer of the next write does not arrive.
	lost bool
}

func owned(kind schema.GroupVersionKind, name string, by *schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace("shop")
	object.SetName(name)
	object.SetUID("uid-of-" + "web")
	if by != nil {
		object.SetOwnerReferences([]metav1.OwnerReference{
			{APIVersion: by.GroupVersion().String(), Kind: by.Kind, Name: "web", UID: "uid-of-web", Controller: ptr.To(true)},
		})
	}
	return object
}

func newOwnerWorld(t *testing.T, scalable ...string) *ownerWorld {
	w := &ownerWorld{t: t, size: 2, version: 10, denied: map[string]error{}}
	deployment := deploymentOf("shop", "web")
	deployment.OwnerReferences = owned(appKind, "", &appKind).GetOwnerReferences()
	deployment.Spec = appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	w.client = fake.NewClientset(deployment)
	kinds := []string{"App", "Platform"}
	for _, kind := range scalable {
		kinds = append(kinds, kind+"/scale")
	}
	w.client.Resources = []*metav1.APIResourceList{served("example.com/v1", kinds...)}
	w.objects = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), owned(appKind, "web", &platformKind), owned(platformKind, "web", nil))
	w.objects.PrependReactor("*", "*", w.react)
	w.ScaleWorkload = &ScaleWorkload{Client: w.client, Dynamic: w.objects, Mapper: NewMapper(w.client.Discovery()), Wake: func(phase.ID) {}, pace: &pace{}}
	return w
}

func (w *ownerWorld) react(action clienttesting.Action) (bool, runtime.Object, error) {
	resource := action.GetResource().Resource
	if sub := action.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	if err := w.denied[action.GetVerb()+" "+resource]; err != nil {
		return true, nil, err
	}
	if action.GetSubresource() != "scale" {
		return false, nil, nil
	}
	if update, ok := action.(clienttesting.UpdateAction); ok {
		given := update.GetObject().(*unstructured.Unstructured)
		if given.GetResourceVersion() != strconv.Itoa(w.version) || given.GetUID() != "uid-of-web" {
			return true, nil, apierrors.NewConflict(apps.GroupResource(), "web", errors.New("it has changed"))
		}
		w.size, _, _ = unstructured.NestedInt64(given.Object, "spec", "replicas")
		w.version++
		w.puts++
		if w.lost {
			w.lost = false
			return true, nil, errors.New("connection reset by peer")
		}
	}
	object := owned(schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, "web", nil)
	object.SetResourceVersion(strconv.Itoa(w.version))
	_ = unstructured.SetNestedField(object.Object, w.size, "spec", "replicas")
	_ = unstructured.SetNestedField(object.Object, w.size, "status", "replicas")
	return true, object, nil
}

// follow sets the replicas of the Deployment, as the controller of the App does.
func (w *ownerWorld) follow() {
	w.t.Helper()
	deployment, err := w.client.AppsV1().Deployments("shop").Get(w.t.Context(), "web", metav1.GetOptions{})
	if err == nil {
		deployment.Spec.Replicas, deployment.Status.Replicas = ptr.To(int32(w.size)), int32(w.size)
		deployment.Status.UpdatedReplicas, deployment.Status.AvailableReplicas = int32(w.size), int32(w.size)
		_, err = w.client.AppsV1().Deployments("shop").Update(w.t.Context(), deployment, metav1.UpdateOptions{})
	}
	if err == nil {
		err = w.client.AppsV1().ReplicaSets("shop").Delete(w.t.Context(), "web-1", metav1.DeleteOptions{})
	}
	if err == nil || apierrors.IsNotFound(err) {
		_, err = w.client.AppsV1().ReplicaSets("shop").Create(w.t.Context(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-", Name: "web-1", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		}}, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// addPods adds running Pods of the Deployment.
func (w *ownerWorld) addPods(from, to int) {
	w.t.Helper()
	for i := from; i < to; i++ {
		pod := ownedPod(fmt.Sprintf("web-%d", i), "", corev1.PodRunning)
		pod.Namespace, pod.Labels = "shop", map[string]string{"app": "web"}
		if err := w.client.Tracker().Add(pod); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *ownerWorld) call(kind string, wait bool) phase.Call {
	return phase.Call{ID: testID, Args: map[string]any{"replicas": "0", "kind": kind, "namespace": "shop", "name": "web", "waitForReady": wait}}
}

// run runs a call as far as possible when its next poll is due, and records its intents.
func (w *ownerWorld) run(call *phase.Call) phase.Observation {
	w.t.Helper()
	w.pace = &pace{}
	if call.Intent == nil {
		intent, err := w.Validate(w.t.Context(), *call)
		if err != nil {
			w.t.Fatal(err)
		}
		call.Intent = intent
	}
	for range 5 {
		found, err := w.Poll(w.t.Context(), *call)
		if found.State == phase.Idle {
			found, err = w.Start(w.t.Context(), *call)
		}
		if found.State == phase.Ready {
			call.Intent = found.Intent
			continue
		}
		if err == nil {
			return found
		}
	}
	w.t.Fatal("it goes nowhere")
	return phase.Observation{}
}

func TestScaleThroughOwner(t *testing.T) {
	w := newOwnerWorld(t, "App")
	call := w.call("deployment", true)
	if found := w.run(&call); found.State != phase.Running {
		t.Errorf("before the owner's controller has done anything: %+v", found)
	}
	w.follow()
	if diff := cmp.Diff(succeededFrom(2), w.run(&call)); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
	if w.size != 0 || w.puts != 1 {
		t.Errorf("the App has %d replicas after %d writes", w.size, w.puts)
	}
}

func TestAutoscalerOfOwner(t *testing.T) {
	w := newOwnerWorld(t, "App")
	call := w.call("deployment", true)
	call.Args["replicas"] = 3
	w.addPods(0, 2)
	w.follow()
	if found := w.run(&call); found.State != phase.Running {
		t.Errorf("its Deployment has two Pods yet: %+v", found)
	}
	w.size = 5
	if got := w.run(&call).Waiting.For; !strings.HasPrefix(got, "deployment shop/web to have 5 replicas") {
		t.Errorf("it waits for %q", got)
	}
	w.addPods(2, 5)
	w.follow()
	if diff := cmp.Diff(succeededFrom(2), w.run(&call)); diff != "" || w.puts != 1 {
		t.Errorf("after %d writes (-want +got):\n%s", w.puts, diff)
	}

	w = newOwnerWorld(t, "App")
	call = w.call("deployment", true)
	w.run(&call)
	w.size = 1
	want := phase.Observation{State: phase.Failed, Message: "apps.example.com shop/web was scaled to 0, and then to 1 by another client before it was ready"}
	if diff := cmp.Diff(want, w.run(&call)); diff != "" {
		t.Errorf("scaled up by another client (-want +got):\n%s", diff)
	}
}

func TestHighestScalableOwner(t *testing.T) {
	for name, c := range map[string]struct {
		scalable []string
		denied   string
		want     string
	}{
		"none":                          {nil, "", ""},
		"the first":                     {[]string{"App"}, "", "apps.example.com shop/web"},
		"the second":                    {[]string{"Platform"}, "", "platforms.example.com shop/web"},
		"both":                          {[]string{"App", "Platform"}, "", "platforms.example.com shop/web"},
		"of which one may not be read":  {[]string{"App", "Platform"}, "get apps", "apps.example.com shop/web"},
		"none, and it may not be read":  {[]string{"Platform"}, "get apps", ""},
		"the second may not be read":    {[]string{"App"}, "get platforms", "apps.example.com shop/web"},
		"it may not be read and scaled": {[]string{"Platform"}, "get platforms", "platforms.example.com shop/web"},
	} {
		w := newOwnerWorld(t, c.scalable...)
		if c.denied != "" {
			w.denied[c.denied] = apierrors.NewForbidden(apps.GroupResource(), "web", errors.New("no right"))
		}
		object := owned(schema.GroupVersionKind{}, "web", &appKind)
		owner, err := w.scaledOwner(t.Context(), object)
		got := ""
		if owner != nil {
			got = owner.String()
		}
		if err != nil || got != c.want {
			t.Errorf("%s: it is %q, want %q: %v", name, got, c.want, err)
		}
	}
}

func TestScaleCustomKind(t *testing.T) {
	for _, kind := range []string{"App", "apps.example.com"} {
		w := newOwnerWorld(t, "App")
		call := w.call(kind, true)
		if diff := cmp.Diff(succeededFrom(2), w.run(&call)); diff != "" || w.puts != 1 {
			t.Errorf("%s, after %d writes (-want +got):\n%s", kind, w.puts, diff)
		}
	}
	w := newOwnerWorld(t)
	for kind, want := range map[string]string{
		"App": "Workload type not supported app: it has no scale subresource", "Cart": "Workload type not supported cart: the API server serves no such kind",
	} {
		_, err := w.Validate(t.Context(), w.call(kind, true))
		if message, _ := phase.FailureOf(err); message != want {
			t.Errorf("%s: %q, want %q", kind, message, want)
		}
	}
	custom := &phase.Custom{Group: "example.com", Kind: "App", Namespace: "shop", Name: "web"}
	subject := phase.Call{ID: testID, Args: map[string]any{"replicas": 0}, Action: phase.Action{Custom: custom}}
	w = newOwnerWorld(t, "App")
	if found := w.run(&subject); found.State != phase.Succeeded || w.size != 0 {
		t.Errorf("the subject: %+v", found)
	}
}

// All names of the kind mean the same: the phase waits for the Pods.
func TestNamesOfWorkloadKinds(t *testing.T) {
	for _, kind := range []string{"deployments", "Deployments", "deployment.apps", "deployments.apps", "statefulsets", "StatefulSet.apps"} {
		w := newOwnerWorld(t)
		w.client.Resources = append(w.client.Resources, served("apps/v1", "Deployment", "Deployment/scale", "StatefulSet", "StatefulSet/scale"))
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)}}
		if err := w.client.Tracker().Add(set); err != nil {
			t.Fatal(err)
		}
		recorded, err := w.Validate(t.Context(), w.call(kind, true))
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		var intent scaleIntent
		if err := phase.DecodeIntent(recorded, &intent); err != nil || !intent.workload() || intent.Scale != nil || intent.OriginalReplicaCount != 2 {
			t.Errorf("%s: the intent is %v, %v", kind, recorded, err)
		}
	}
}

func TestForbiddenScaleNamesRule(t *testing.T) {
	const rule = "the operator needs the verbs get and update on apps.example.com/scale"
	w := newOwnerWorld(t, "App")
	call := w.call("deployment", false)
	w.denied["update apps/scale"] = apierrors.NewForbidden(apps.GroupResource(), "web", errors.New("no right"))
	found := w.run(&call)
	wantState(t, "writing", found, phase.Failed)
	wantText(t, "writing", found.Message, rule, "no right")
	w.denied["get apps/scale"] = w.denied["update apps/scale"]
	_, err := w.Validate(t.Context(), w.call("deployment", false))
	message, _ := phase.FailureOf(err)
	wantText(t, "reading", message, rule, "no right")
}

func TestLostAnswerWithChangeScalesOnce(t *testing.T) {
	w := newOwnerWorld(t, "App")
	w.lost = true
	call := w.call("deployment", false)
	if found := w.run(&call); found.State != phase.Succeeded || w.puts != 1 {
		t.Errorf("the answer is lost: %d writes, %+v", w.puts, found)
	}
	w = newOwnerWorld(t, "App")
	call = w.call("deployment", true)
	intent, err := w.Validate(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	call.Intent = intent
	w.version++ // a label, say
	if found := w.run(&call); found.State != phase.Running || w.puts != 1 || w.size != 0 {
		t.Errorf("it has changed: %d writes, %+v", w.puts, found)
	}
	w.size, w.version = 5, w.version+1
	if found := w.run(&call); found.State != phase.Failed || w.puts != 1 {
		t.Errorf("another client scales it: %d writes, %+v", w.puts, found)
	}
}

// The CustomResourceDefinition of the owner is installed, or gets its scale subresource, after discovery was cached.
func TestOwnerIsServedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOwnerWorld(t)
		all := w.client.Resources
		w.objects.PrependReactor("get", "apps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			inV2 := action.GetResource().Version == "v2" && action.GetSubresource() == ""
			return inV2, owned(appKind, "web", &platformKind), nil
		})
		scaled := func() string {
			t.Helper()
			time.Sleep(time.Millisecond)
			raw, err := w.Validate(t.Context(), w.call("deployment", false))
			if err != nil {
				t.Fatal(err)
			}
			var intent scaleIntent
			if err := phase.DecodeIntent(raw, &intent); err != nil {
				t.Fatal(err)
			}
			if intent.Scale == nil {
				return "itself"
			}
			return intent.Scale.String()
		}
		wantText(t, "without a scale subresource, what is scaled", scaled(), "itself")
		w.client.Resources = []*metav1.APIResourceList{served("v1", "ConfigMap")}
		wantText(t, "without a definition, what is scaled", scaled(), "itself")
		w.client.Resources = []*metav1.APIResourceList{served("example.com/v2", "App", "App/scale")}
		wantText(t, "in another version, what is scaled", scaled(), "apps.example.com shop/web")
		w.client.Resources = all
		wantText(t, "without a scale subresource again, what is scaled", scaled(), "itself")
		w.client.Resources = []*metav1.APIResourceList{served("example.com/v1", "App", "App/scale")}
		wantText(t, "with a scale subresource, what is scaled", scaled(), "apps.example.com shop/web")
	})
}

func TestOwnerOfUnavailableGroup(t *testing.T) {
	w := newOwnerWorld(t, "App")
	server := &fakeServer{FakeDiscovery: w.client.Discovery().(*fakediscovery.FakeDiscovery), down: map[string]error{
		"example.com/v1": apierrors.NewServiceUnavailable("no endpoints"),
	}}
	w.Mapper = NewMapper(server)
	for what, call := range map[string]phase.Call{"the Deployment": w.call("deployment", false), "the App": w.call("app.example.com", false)} {
		_, err := w.Validate(t.Context(), call)
		wantWait(t, what, err, "the API group example.com")
	}
	server.down = nil
	call := w.call("deployment", false)
	if found := w.run(&call); found.State != phase.Succeeded || w.puts != 1 {
		t.Errorf("it is available again: %d writes, %+v", w.puts, found)
	}
}

// The version of the App gives way to another one, just after it was found.
func TestVersionOfOwnerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOwnerWorld(t, "App")
		w.objects.PrependReactor("*", "apps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			version := action.GetResource().GroupVersion().String()
			if version != w.client.Resources[0].GroupVersion {
				return true, nil, apierrors.NewGenericServerResponse(404, "get", apps.GroupResource(), "web", "404 page not found", 0, true)
			}
			return action.GetSubresource() == "", owned(appKind, "web", &platformKind), nil
		})
		for _, kind := range []string{"deployment", "app"} {
			w.client.Resources = []*metav1.APIResourceList{served("example.com/v1", "App", "App/scale")}
			call := w.call(kind, false)
			time.Sleep(answerAge)
			intent, err := w.Validate(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			w.client.Resources = []*metav1.APIResourceList{served("example.com/v2", "App", "App/scale")}
			_, err = w.Validate(t.Context(), call)
			wantText(t, "the first error", fmt.Sprint(err), "no longer serves example.com/v1")
			if message, failed := phase.FailureOf(phase.Definitive(err)); failed {
				t.Fatalf("%s: the phase fails: %s", kind, message)
			}
			begun := call
			begun.Intent = intent
			for when, call := range map[string]*phase.Call{"before the phase": &call, "after its intent was recorded": &begun} {
				writes := w.puts
				w.size = 2
				if found := w.run(call); found.State != phase.Succeeded || w.puts != writes+1 || w.size != 0 {
					t.Errorf("%s, %s: %d writes, %+v", kind, when, w.puts-writes, found)
				}
			}
		}
	})
}
