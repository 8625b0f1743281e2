// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

func (e *farmEnv) farmPod(name string) *farmv1alpha.FarmPod {
	e.Helper()
	pod, err := e.pods.Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return pod
}

func (e *farmEnv) awaitRunning(name string) *corev1.Pod {
	e.Helper()
	var pod *corev1.Pod
	e.eventually(func() string {
		var err error
		if pod, err = e.kube.CoreV1().Pods(e.namespace).Get(e.Context(), name, metav1.GetOptions{}); err != nil {
			e.Fatal(err)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "the Pod is not ready but " + string(pod.Status.Phase)
	})
	return pod
}

// awaitUnschedulable waits until the scheduler has found no node for the Pod. After that nothing changes the Pod.
func (e *farmEnv) awaitUnschedulable(name string) {
	e.Helper()
	e.eventually(func() string {
		pod, err := e.kube.CoreV1().Pods(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			e.Fatal(err)
		}
		if len(pod.Status.Conditions) == 0 {
			return "the scheduler has not seen the Pod"
		}
		return ""
	})
}

func TestFarmPodShowsPod(t *testing.T) {
	e := inSharedFarm(t)
	e.createPod("web", 2, func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"app": "web"}
		pod.Annotations = map[string]string{"note": "kept", corev1.LastAppliedConfigAnnotation: "{}"}
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox"}}
	})
	pod := e.awaitRunning("web")
	shown := e.farmPod("farm-web")
	want := &farmv1alpha.FarmPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "farm-web", Namespace: e.namespace, ResourceVersion: pod.ResourceVersion, UID: shown.UID, Generation: shown.Generation,
			CreationTimestamp: pod.CreationTimestamp,
			Labels:            map[string]string{"app": "web"}, Annotations: map[string]string{"note": "kept"},
		},
		Spec: farmv1alpha.FarmPodSpec{Containers: 2},
		Status: farmv1alpha.FarmPodStatus{
			PodName: "web", NodeName: pod.Spec.NodeName, Phase: corev1.PodRunning, Reason: "Running", ReadyContainers: 2, InitContainers: 1,
			Images: []string{"nginx:latest", "nginx:latest"},
		},
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("FarmPod (-want +got):\n%s", diff)
	}
	if shown.UID == pod.UID || shown.UID == "" || shown.UID != e.farmPod("farm-web").UID {
		t.Errorf("got UID %q, want a stable one other than the Pod's %q", shown.UID, pod.UID)
	}
	e.prints("NAME CONTAINERS READY STATUS RESTARTS AGE\nfarm-web 2 2/2 Running 0 AGE", "get", "farmpods")
	e.prints("NAME CONTAINERS READY STATUS RESTARTS AGE POD NODE IMAGES\nfarm-web 2 2/2 Running 0 AGE web "+pod.Spec.NodeName+
		" nginx:latest,nginx:latest", "get", "fp", "-o", "wide")
	e.says([]string{"describe", "farmpod", "farm-web"}, "Name: farm-web", "Kind: FarmPod", "Pod Name: web", "Ready Containers: 2")
	e.prints("NAMESPACE NAME CONTAINERS READY STATUS RESTARTS AGE\n"+e.namespace+" farm-web 2 2/2 Running 0 AGE",
		"get", "farmpods", "-A", "--field-selector", "metadata.namespace="+e.namespace)
	e.kubectl("apply", "-f", e.file(dolly))
	e.prints("NAME WEIGHT HEIGHT AGE\nllama.farm.example.com/dolly 31.4 0.5 AGE\nNAME CONTAINERS READY STATUS RESTARTS AGE\nfarmpod.farm.example.com/farm-web 2 2/2 Running 0 AGE",
		"get", "llamas,farmpods", "--ignore-not-found")
}

func TestFarmPodNotFound(t *testing.T) {
	e := inSharedFarm(t)
	e.createPod("web", 1)
	e.createPod("farm-x", 1)
	for _, name := range []string{"web", "farm-none", "none"} {
		_, err := e.pods.Get(t.Context(), name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `farmpods.farm.example.com "`+name+`" not found`) {
			t.Errorf("get %s: got %v, want not found", name, err)
		}
	}
	if got := e.farmPod("farm-farm-x").Status.PodName; got != "farm-x" {
		t.Errorf("Pod of farm-farm-x: got %s, want farm-x", got)
	}
	longest := strings.Repeat("p", 253)
	e.createPod(longest, 1)
	if got := e.farmPod("farm-" + longest); got.Status.PodName != longest {
		t.Errorf("FarmPod of a Pod with a name of 253 characters: got %+v", got)
	}
	list, err := e.pods.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=farm-" + longest})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("list by a name of 258 characters: got %v, %v, want one", list, err)
	}
}

func TestFarmPodReadOnly(t *testing.T) {
	e := inSharedFarm(t)
	e.createPod("web", 1)
	client := e.client.FarmV1alpha().RESTClient()
	one, all := "/apis/farm.example.com/v1alpha/namespaces/"+e.namespace+"/farmpods/farm-web", "/apis/farm.example.com/v1alpha/namespaces/"+e.namespace+"/farmpods"
	for doing, err := range map[string]error{
		"creating":   client.Post().AbsPath(all).Body([]byte(`{"apiVersion":"farm.example.com/v1alpha","kind":"FarmPod"}`)).Do(t.Context()).Error(),
		"updating":   client.Put().AbsPath(one).Body([]byte(`{}`)).Do(t.Context()).Error(),
		"patching":   client.Patch("application/merge-patch+json").AbsPath(one).Body([]byte(`{}`)).Do(t.Context()).Error(),
		"applying":   client.Patch("application/apply-patch+yaml").AbsPath(one).Param("fieldManager", "x").Body([]byte(`{}`)).Do(t.Context()).Error(),
		"deleting":   client.Delete().AbsPath(one).Do(t.Context()).Error(),
		"clearing":   client.Delete().AbsPath(all).Do(t.Context()).Error(),
		"subwriting": client.Put().AbsPath(one + "/status").Body([]byte(`{}`)).Do(t.Context()).Error(),
	} {
		if doing == "subwriting" && apierrors.IsNotFound(err) {
			continue
		}
		if !apierrors.IsMethodNotSupported(err) {
			t.Errorf("%s a FarmPod: got %v, want method not supported", doing, err)
		}
	}
	if got := e.kubectlFails("delete", "farmpod", "farm-web"); !strings.Contains(got, "(MethodNotAllowed)") {
		t.Errorf("kubectl delete: got %s, want MethodNotAllowed", got)
	}
}

func TestFarmPodSelectors(t *testing.T) {
	e := inSharedFarm(t)
	for _, name := range []string{"a", "b", "c"} {
		e.createPod(name, 1, func(pod *corev1.Pod) {
			pod.Labels = map[string]string{"app": name}
			if name == "c" {
				onNoNode(pod)
			}
		})
	}
	node := e.awaitRunning("a").Spec.NodeName
	e.awaitRunning("b")
	for _, test := range []struct{ labels, fields, want string }{
		{"app=a", "", "farm-a"},
		{"app!=a", "", "farm-b farm-c"},
		{"app in (a,c)", "status.phase=Pending", "farm-c"},
		{"", "status.phase=Running", "farm-a farm-b"},
		{"", "status.phase!=Running", "farm-c"},
		{"", "spec.nodeName=" + node, "farm-a farm-b"},
		{"", "spec.nodeName=", "farm-c"},
		{"", "metadata.name=farm-b", "farm-b"},
		{"", "metadata.name!=farm-b", "farm-a farm-c"},
		{"", "metadata.name=b", ""},
		{"", "metadata.name!=b", "farm-a farm-b farm-c"},
		{"", "metadata.name=farm-b,status.phase=Pending", ""},
		{"", "metadata.namespace=" + e.namespace, "farm-a farm-b farm-c"},
		{"", "metadata.namespace=elsewhere", ""},
	} {
		list, err := e.pods.List(t.Context(), metav1.ListOptions{LabelSelector: test.labels, FieldSelector: test.fields})
		if err != nil {
			t.Errorf("%q %q: %v", test.labels, test.fields, err)
			continue
		}
		if got := strings.Join(farmPodNames(list), " "); got != test.want || list.ResourceVersion == "" {
			t.Errorf("%q %q: got %q in version %q, want %q", test.labels, test.fields, got, list.ResourceVersion, test.want)
		}
	}
	if _, err := e.pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.restartPolicy=Always"}); !apierrors.IsBadRequest(err) {
		t.Errorf("unknown field selector: got %v, want a bad request", err)
	}
}

func farmPodNames(list *farmv1alpha.FarmPodList) (names []string) {
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	return names
}

// A watch of FarmPods shows the same events in the same order as one of Pods.
func TestFarmPodWatchOrder(t *testing.T) {
	e := inSharedFarm(t)
	e.createPod("first", 1, onNoNode) // it never changes
	e.awaitUnschedulable("first")
	pods := e.kube.CoreV1().Pods(e.namespace)
	options := metav1.ListOptions{SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}
	watchers := map[string]watch.Interface{}
	var err error
	if watchers["pods"], err = pods.Watch(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if watchers["farmpods"], err = e.pods.Watch(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	events := map[string]*[]string{"pods": {}, "farmpods": {}}
	for name, watcher := range watchers {
		t.Cleanup(watcher.Stop)
		reading.Go(func() { *events[name] = readUntil(watcher, "last") })
	}
	const count = 15
	for i := range count {
		e.createPod(fmt.Sprintf("pod-%d", i), 1)
	}
	for i := range count {
		name := fmt.Sprintf("pod-%d", i)
		e.awaitRunning(name)
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
			t.Fatal(err)
		}
	}
	e.createPod("last", 1)
	reading.Wait()
	if diff := cmp.Diff(*events["pods"], *events["farmpods"]); diff != "" {
		t.Errorf("events (-pods +farmpods):\n%s", diff)
	}
	if len(*events["pods"]) < 3*count || !slices.Contains(*events["pods"], "BOOKMARK true") {
		t.Errorf("got events %v of %d Pods, want at least three each and a bookmark", *events["pods"], count)
	}
}

// readUntil returns the events of a watch up to the one of the object with this name, each as a line that is the same for a FarmPod and
// its Pod. It leaves out periodic bookmarks.
func readUntil(watcher watch.Interface, name string) (lines []string) {
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(metav1.Object)
		switch {
		case !ok:
			return append(lines, fmt.Sprintf("%s %+v", event.Type, event.Object))
		case event.Type == watch.Bookmark:
			if end := object.GetAnnotations()[metav1.InitialEventsAnnotationKey]; end != "" {
				lines = append(lines, fmt.Sprintf("%s %s", event.Type, end))
			}
			continue
		}
		pod := strings.TrimPrefix(object.GetName(), farmv1alpha.FarmPodPrefix)
		lines = append(lines, fmt.Sprintf("%s %s %s deleted=%v", event.Type, pod, object.GetResourceVersion(), object.GetDeletionTimestamp() != nil))
		if pod == name {
			return lines
		}
	}
	return append(lines, "the watch has ended")
}
