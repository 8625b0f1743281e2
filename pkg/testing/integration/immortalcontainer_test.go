// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/patience"
)

// Annotations for the simulated node; hack/cluster/README.md lists all.
const (
	exitCode           = "simulated.millwright.dev/exit-code"
	runSeconds         = "simulated.millwright.dev/run-seconds"
	neverReady         = "simulated.millwright.dev/never-ready"
	terminationSeconds = "simulated.millwright.dev/termination-seconds"
)

func TestImmortalContainer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*env){
		"minimal":              twoLinesMakeAPod,
		"Pod deleted":          deletedPodComesBack,
		"Pod deleted by force": forcedDeletionIsCountedOnce,
		"exit 0":               exitZero,
		"exit 1":               exitOne,
		"crash loop":           crashLoopBacksOff,
		"edit ends backoff":    editEndsBackOff,
		"image":                imageChange,
		"template":             templateChange,
		"long termination":     longTermination,
		"never ready":          neverBecomesReady,
		"foreign Pod":          foreignPod,
		"label removed":        strippedLabel,
		"recreated":            recreatedWhilePodTerminates,
		"quota exceeded":       quotaRefusal,
		"invalid template":     invalidTemplate,
		"suspend and resume":   suspendAndResume,
		"deletion":             deletion,
		"namespace deletion":   namespaceDeletion,
		"longest name":         longestName,
	} {
		t.Run(name, func(t *testing.T) {
			test(inCore(t))
		})
	}
}

func twoLinesMakeAPod(e *env) {
	e.create(immortal("web"))
	container, pod := e.awaitReady("web", 1)
	if container.Status.CurrentPod != "web-immortalpod" || container.Status.PodPhase != corev1.PodRunning {
		e.Errorf("status: got Pod %q in phase %q, want web-immortalpod Running", container.Status.CurrentPod, container.Status.PodPhase)
	}
	first := pod.Spec.Containers[0]
	if pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure || first.Name != "acontainer" || first.Image != "nginx:latest" {
		e.Errorf("got restart policy %s and containers %+v", pod.Spec.RestartPolicy, pod.Spec.Containers)
	}
	e.awaitEvent("web", "Started")
	e.kubectl("wait", "--for=condition=Ready", "ic/web", patience.Timeout)
	columns := strings.Fields(strings.SplitN(e.kubectl("get", "ic", "-o", "wide"), "\n", 2)[0])
	if got, want := strings.Join(columns, " "), "NAME IMAGE POD STARTS READY AGE REASON PHASE LAST REASON"; got != want {
		e.Errorf("columns of kubectl get ic -o wide: got %q, want %q", got, want)
	}
	if described := e.kubectl("describe", "ic", "web"); !strings.Contains(described, "Started") || !strings.Contains(described, "Created Pod web-immortalpod, start 1") {
		e.Errorf("kubectl describe does not show the start:\n%s", described)
	}
}

func deletedPodComesBack(e *env) {
	e.create(immortal("web"))
	_, first := e.awaitReady("web", 1)
	e.kubectl("delete", "pod", "web-immortalpod")
	_, second := e.awaitReady("web", 2)
	if first.UID == second.UID {
		e.Error("the Pod was not replaced")
	}
}

// To a filtered watch, a Pod that is deleted without termination looks like one that has lost its label.
func forcedDeletionIsCountedOnce(e *env) {
	e.create(immortal("web"))
	e.awaitReady("web", 1)
	e.kubectl("delete", "pod", "web-immortalpod", "--grace-period=0", "--force")
	e.awaitReady("web", 2)
}

func exitZero(e *env) {
	e.create(immortal("job", exits(0, "0.2"), backoff(1, 1)))
	e.eventually(func() string {
		if container := e.get("job"); container.Status.StartTimes < 2 {
			return describe(container)
		}
		return ""
	})
	last := e.get("job").Status.LastTermination
	if last == nil || last.Reason != "Completed" || last.ExitCode == nil || *last.ExitCode != 0 || last.Pod != "job-immortalpod" || last.FinishedAt.IsZero() {
		e.Errorf("lastTermination: got %+v, want Completed with exit code 0", last)
	}
	if message := e.awaitEvent("job", "Terminated"); !strings.Contains(message, "Completed, exit code 0") {
		e.Errorf("message of the event Terminated: got %q, want the exit code in it", message)
	}
	e.awaitEvent("job", "BackingOff")
}

func exitOne(e *env) {
	e.create(immortal("crash", exits(1, "0.1")))
	e.awaitCondition("crash", v1alpha1.ConditionReady, metav1.ConditionFalse, "CrashLoopBackOff")
	if container := e.get("crash"); container.Status.StartTimes != 1 || container.Status.LastTermination != nil {
		e.Errorf("restarts of the kubelet were counted as starts: %s", describe(container))
	}
}

func crashLoopBacksOff(e *env) {
	pods := recordPods(e) // each Pod exists for a moment only
	crash := e.create(immortal("crash", exits(0, "0"), backoff(1, 4)))
	var starts map[string]time.Time
	e.eventually(func() string {
		if starts = pods.starts(crash); len(starts) < 5 {
			return fmt.Sprintf("got %d starts, want 5", len(starts))
		}
		return ""
	})
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		last, next := starts[strconv.Itoa(i+1)], starts[strconv.Itoa(i+2)]
		if waited := next.Sub(last); last.IsZero() || waited < wait {
			e.Errorf("delay before start %d: got %s, want at least %s", i+2, waited, wait)
		}
	}
	if container := e.get("crash"); container.Status.ConsecutiveTerminations < 4 {
		e.Errorf("consecutiveTerminations: got %d, want at least 4", container.Status.ConsecutiveTerminations)
	}
}

func editEndsBackOff(e *env) {
	e.create(immortal("job", exits(0, "0"), backoff(3600, 3600)))
	message := e.awaitCondition("job", v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonBackingOff)
	if !strings.Contains(message, "Next start at ") || e.get("job").Status.NextStartTime == nil {
		e.Errorf("message of the condition: got %q, want the time of the next start", message)
	}
	e.patch("job", `{"spec":{"template":null}}`)
	container, _ := e.awaitReady("job", 2)
	if container.Status.NextStartTime != nil || container.Status.ConsecutiveTerminations != 0 {
		e.Errorf("the backoff was not reset: %s", describe(container))
	}
}

func imageChange(e *env) {
	e.create(immortal("web"))
	_, first := e.awaitReady("web", 1)
	e.patch("web", `{"spec":{"image":"nginx:1.29"}}`)
	_, second := e.awaitReady("web", 2)
	if first.UID == second.UID || second.Spec.Containers[0].Image != "nginx:1.29" {
		e.Errorf("got image %s, want nginx:1.29 in a new Pod", second.Spec.Containers[0].Image)
	}
	e.awaitEvent("web", "Replaced")
}

func templateChange(e *env) {
	e.create(immortal("web"))
	e.awaitReady("web", 1)
	e.patch("web", `{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[
		{"name":"acontainer","env":[{"name":"MODE","value":"fast"}]},{"name":"sidecar","image":"busybox"}]}}}}`)
	_, pod := e.awaitReady("web", 2)
	if first := pod.Spec.Containers[0]; pod.Labels["app"] != "web" || len(pod.Spec.Containers) != 2 || first.Image != "nginx:latest" || first.Env[0].Value != "fast" {
		e.Errorf("got labels %v and containers %+v, want those of the template", pod.Labels, pod.Spec.Containers)
	}
	e.patch("web", `{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/os":"linux"},"containers":null}}}}`)
	if _, pod = e.awaitReady("web", 3); pod.Spec.NodeSelector["kubernetes.io/os"] != "linux" || len(pod.Spec.Containers) != 1 {
		e.Errorf("template without containers: got %+v", pod.Spec)
	}
}

func longTermination(e *env) {
	e.create(immortal("slow", annotated(terminationSeconds, "8")))
	_, first := e.awaitReady("slow", 1)
	e.deletePod("slow")
	e.awaitCondition("slow", v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonWaitingForTermination)
	e.awaitCondition("slow", v1alpha1.ConditionReady, metav1.ConditionFalse, "PodTerminating")
	if pod := e.pod("slow"); pod == nil || pod.UID != first.UID {
		e.Error("the status reported a terminating Pod that did not exist")
	}
	e.awaitReady("slow", 2)
}

func neverBecomesReady(e *env) {
	e.create(immortal("web", annotated(neverReady, "true")))
	e.awaitCondition("web", v1alpha1.ConditionReady, metav1.ConditionFalse, "ContainersNotReady")
	if container := e.get("web"); container.Status.StartTimes != 1 || container.Status.PodPhase != corev1.PodRunning {
		e.Error(describe(container))
	}
}

func foreignPod(e *env) {
	foreign, err := e.kube.CoreV1().Pods(e.namespace).Create(e.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-immortalpod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.create(immortal("web"))
	const message = `Resource "web-immortalpod" already exists and is not managed by ImmortalContainer`
	if got := e.awaitEvent("web", "ErrResourceExists"); got != message {
		e.Errorf("message of the event: got %q, want %q", got, message)
	}
	e.awaitCondition("web", v1alpha1.ConditionConflict, metav1.ConditionTrue, "ErrResourceExists")
	if pod := e.pod("web"); pod == nil || pod.UID != foreign.UID || pod.DeletionTimestamp != nil || len(pod.Labels) > 0 {
		e.Error("the foreign Pod was changed")
	}
	e.deletePod("web")
	e.awaitReady("web", 1)
	e.awaitCondition("web", v1alpha1.ConditionConflict, metav1.ConditionFalse, "Resolved")
}

func strippedLabel(e *env) {
	e.create(immortal("web"))
	_, first := e.awaitReady("web", 1)
	e.kubectl("label", "pod", "web-immortalpod", controller.LabelManagedBy+"-")
	e.eventually(func() string {
		if pod := e.pod("web"); pod.Labels[controller.LabelManagedBy] != controller.ManagedBy {
			return "the label was not restored"
		}
		return ""
	})
	if _, pod := e.awaitReady("web", 1); pod.UID != first.UID {
		e.Error("the Pod was replaced")
	}
}

func recreatedWhilePodTerminates(e *env) {
	e.create(immortal("web", annotated(terminationSeconds, "2")))
	_, first := e.awaitReady("web", 1)
	e.kubectl("delete", "ic", "web", "--wait=false")
	e.eventually(func() string {
		_, err := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace).Get(e.Context(), "web", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return "the ImmortalContainer still exists"
		}
		return ""
	})
	e.create(immortal("web"))
	e.awaitCondition("web", v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonWaitingForTermination)
	if _, second := e.awaitReady("web", 1); first.UID == second.UID {
		e.Error("the Pod of the deleted ImmortalContainer was adopted")
	}
	for _, event := range e.events("web") {
		if event.Type == corev1.EventTypeWarning {
			e.Errorf("got warning %s %s, want none", event.Reason, event.Message)
		}
	}
}

func quotaRefusal(e *env) {
	_, err := e.kube.CoreV1().ResourceQuotas(e.namespace).Create(e.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.eventually(func() string { // a quota refuses everything until its usage is counted
		quota, err := e.kube.CoreV1().ResourceQuotas(e.namespace).Get(e.Context(), "none", metav1.GetOptions{})
		if err != nil || quota.Status.Hard == nil {
			return "the quota is not counted yet"
		}
		return ""
	})
	e.create(immortal("web"))
	if message := e.awaitCondition("web", v1alpha1.ConditionReady, metav1.ConditionFalse, "Forbidden"); !strings.Contains(message, "exceeded quota: none") {
		e.Errorf("message of the condition: got %q, want the error of the API server in it", message)
	}
	if message := e.awaitEvent("web", "FailedCreate"); !strings.Contains(message, "exceeded quota: none") {
		e.Errorf("message of the event: got %q, want the error of the API server in it", message)
	}
	if container := e.get("web"); container.Status.CurrentPod != "" || container.Status.StartTimes != 1 {
		e.Error(describe(container))
	}
	e.kubectl("delete", "resourcequota", "none")
	e.awaitReady("web", 1)
	if warnings := e.warnings("web"); warnings > 2 {
		e.Errorf("got %d warnings, want 2 at most", warnings)
	}
}

func invalidTemplate(e *env) {
	e.create(immortal("web", func(container *v1alpha1.ImmortalContainer) {
		container.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "Not A Name", Image: "x"}}}}
	}))
	if message := e.awaitCondition("web", v1alpha1.ConditionReady, metav1.ConditionFalse, "Invalid"); !strings.Contains(message, "Not A Name") {
		e.Errorf("message of the condition: got %q, want the error of the API server in it", message)
	}
	e.awaitEvent("web", "FailedCreate")
	e.patch("web", `{"spec":{"template":null}}`)
	e.awaitReady("web", 1)
	if warnings := e.warnings("web"); warnings != 1 {
		e.Errorf("got %d warnings, want 1", warnings)
	}
}

func suspendAndResume(e *env) {
	e.create(immortal("web"))
	e.awaitReady("web", 1)
	e.patch("web", `{"spec":{"suspend":true}}`)
	e.awaitCondition("web", v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	e.eventually(func() string {
		if container := e.get("web"); e.pod("web") != nil || container.Status.CurrentPod != "" {
			return describe(container)
		}
		return ""
	})
	e.awaitEvent("web", "Suspended")
	e.patch("web", `{"spec":{"suspend":false}}`)
	e.awaitReady("web", 2)
}

func deletion(e *env) {
	e.create(immortal("web"))
	e.awaitReady("web", 1)
	e.kubectl("delete", "ic", "web", "--cascade=foreground", patience.Timeout)
	if pod := e.pod("web"); pod != nil {
		e.Errorf("the Pod still exists: %+v", pod.Status)
	}
}

func namespaceDeletion(e *env) {
	for i := range 5 {
		e.create(immortal(fmt.Sprintf("web-%d", i)))
	}
	for i := range 5 {
		e.awaitReady(fmt.Sprintf("web-%d", i), 1)
	}
	e.deleteNamespace()
}

func longestName(e *env) {
	name := strings.Repeat("a", 241)
	e.create(immortal(name))
	e.awaitReady(name, 1)
}
