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
	"millwright.dev/pkg/testing/testcluster"
)

// What the simulated node makes of a Pod; hack/cluster/README.md has them all.
const (
	exitCode           = "simulated.millwright.dev/exit-code"
	runSeconds         = "simulated.millwright.dev/run-seconds"
	neverReady         = "simulated.millwright.dev/never-ready"
	terminationSeconds = "simulated.millwright.dev/termination-seconds"
)

func TestImmortalContainer(t *testing.T) {
	cluster := testcluster.Shared(t)
	runManager(t, cluster)
	for name, test := range map[string]func(*env){
		"two lines of spec make a Ready Pod":                          twoLinesMakeAPod,
		"a deleted Pod comes back under its name":                     deletedPodComesBack,
		"a Pod deleted without grace comes back, and is counted once": forcedDeletionIsCountedOnce,
		"an exit with 0 is recorded and started again":                exitZero,
		"an exit with 1 is the kubelet's to restart":                  exitOne,
		"a crash loop is spaced out, doubling":                        crashLoopBacksOff,
		"an edit ends the back-off":                                   editEndsBackOff,
		"another image replaces the Pod":                              imageChange,
		"another template replaces the Pod":                           templateChange,
		"a long termination shows, and nothing runs beside it":        longTermination,
		"a Pod that never becomes ready is mirrored and left alone":   neverBecomesReady,
		"a foreign Pod of the name is left alone until it goes":       foreignPod,
		"a stripped label is put back":                                strippedLabel,
		"recreated while its old Pod terminates, it waits":            recreatedWhilePodTerminates,
		"a quota that refuses is told in the API server's words":      quotaRefusal,
		"a template that makes an invalid Pod is told once":           invalidTemplate,
		"suspend stops it, resume starts it":                          suspendAndResume,
		"deleting it deletes the Pod":                                 deletion,
		"a deleted namespace goes without a complaint":                namespaceDeletion,
		"the longest name works":                                      longestName,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newEnv(t, cluster))
		})
	}
}

func twoLinesMakeAPod(e *env) {
	e.create(immortal("web"))
	container, pod := e.awaitReady("web", 1)
	if container.Status.CurrentPod != "web-immortalpod" || container.Status.PodPhase != corev1.PodRunning {
		e.Errorf("status tells of Pod %q in phase %q", container.Status.CurrentPod, container.Status.PodPhase)
	}
	if pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure || pod.Spec.Containers[0].Name != "acontainer" || pod.Spec.Containers[0].Image != "nginx:latest" {
		e.Errorf("the Pod has restart policy %s and runs %+v", pod.Spec.RestartPolicy, pod.Spec.Containers)
	}
	e.awaitEvent("web", "Started")
	e.kubectl("wait", "--for=condition=Ready", "ic/web", "--timeout=10s")
	columns := strings.Fields(strings.SplitN(e.kubectl("get", "ic", "-o", "wide"), "\n", 2)[0])
	if got, want := strings.Join(columns, " "), "NAME IMAGE POD STARTS READY AGE PHASE LAST REASON"; got != want {
		e.Errorf("kubectl get ic -o wide has the columns %q, not %q", got, want)
	}
	if described := e.kubectl("describe", "ic", "web"); !strings.Contains(described, "Started") || !strings.Contains(described, "Created Pod web-immortalpod, start 1") {
		e.Errorf("kubectl describe does not tell of the start:\n%s", described)
	}
}

func deletedPodComesBack(e *env) {
	e.create(immortal("web"))
	_, first := e.awaitReady("web", 1)
	e.kubectl("delete", "pod", "web-immortalpod")
	_, second := e.awaitReady("web", 2)
	if first.UID == second.UID {
		e.Error("it is still the same Pod")
	}
}

// A Pod that vanishes without having terminated looks to a filtered watch as if it had lost its label.
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
		e.Errorf("lastTermination is %+v", last)
	}
	if message := e.awaitEvent("job", "Terminated"); !strings.Contains(message, "Completed, exit code 0") {
		e.Errorf("the event Terminated says %q", message)
	}
	e.awaitEvent("job", "BackingOff")
}

func exitOne(e *env) {
	e.create(immortal("crash", exits(1, "0.1")))
	e.awaitCondition("crash", v1alpha1.ConditionReady, metav1.ConditionFalse, "CrashLoopBackOff")
	if container := e.get("crash"); container.Status.StartTimes != 1 || container.Status.LastTermination != nil {
		e.Errorf("the restarts of the kubelet count as starts: %s", describe(container))
	}
}

func crashLoopBacksOff(e *env) {
	pods := recordPods(e) // each is there for an instant only
	crash := e.create(immortal("crash", exits(0, "0"), backoff(1, 4)))
	var starts map[string]time.Time
	e.eventually(func() string {
		if starts = pods.starts(crash); len(starts) < 5 {
			return fmt.Sprintf("%d starts seen", len(starts))
		}
		return ""
	})
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		last, next := starts[strconv.Itoa(i+1)], starts[strconv.Itoa(i+2)]
		if waited := next.Sub(last); last.IsZero() || waited < wait {
			e.Errorf("start %d came %s after the one before: at least %s is due", i+2, waited, wait)
		}
	}
	if container := e.get("crash"); container.Status.ConsecutiveTerminations < 4 {
		e.Errorf("consecutiveTerminations is %d", container.Status.ConsecutiveTerminations)
	}
}

func editEndsBackOff(e *env) {
	e.create(immortal("job", exits(0, "0"), backoff(3600, 3600)))
	message := e.awaitCondition("job", v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonBackingOff)
	if !strings.Contains(message, "Next start at ") || e.get("job").Status.NextStartTime == nil {
		e.Errorf("it does not tell when the next start is: %q", message)
	}
	e.patch("job", `{"spec":{"template":null}}`)
	container, _ := e.awaitReady("job", 2)
	if container.Status.NextStartTime != nil || container.Status.ConsecutiveTerminations != 0 {
		e.Errorf("the back-off is not forgotten: %s", describe(container))
	}
}

func imageChange(e *env) {
	e.create(immortal("web"))
	_, first := e.awaitReady("web", 1)
	e.patch("web", `{"spec":{"image":"nginx:1.29"}}`)
	_, second := e.awaitReady("web", 2)
	if first.UID == second.UID || second.Spec.Containers[0].Image != "nginx:1.29" {
		e.Errorf("the Pod runs %s", second.Spec.Containers[0].Image)
	}
	e.awaitEvent("web", "Replaced")
}

func templateChange(e *env) {
	e.create(immortal("web"))
	e.awaitReady("web", 1)
	e.patch("web", `{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[
		{"name":"acontainer","env":[{"name":"MODE","value":"fast"}]},{"name":"sidecar","image":"busybox"}]}}}}`)
	_, pod := e.awaitReady("web", 2)
	if pod.Labels["app"] != "web" || len(pod.Spec.Containers) != 2 || pod.Spec.Containers[0].Image != "nginx:latest" || pod.Spec.Containers[0].Env[0].Value != "fast" {
		e.Errorf("the template is not in the Pod: labels %v, containers %+v", pod.Labels, pod.Spec.Containers)
	}
	e.patch("web", `{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/os":"linux"},"containers":null}}}}`)
	if _, pod = e.awaitReady("web", 3); pod.Spec.NodeSelector["kubernetes.io/os"] != "linux" || len(pod.Spec.Containers) != 1 {
		e.Errorf("a template without containers is not in the Pod: %+v", pod.Spec)
	}
}

func longTermination(e *env) {
	e.create(immortal("slow", annotated(terminationSeconds, "8")))
	_, first := e.awaitReady("slow", 1)
	e.deletePod("slow")
	e.awaitCondition("slow", v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonWaitingForTermination)
	e.awaitCondition("slow", v1alpha1.ConditionReady, metav1.ConditionFalse, "PodTerminating")
	if pod := e.pod("slow"); pod == nil || pod.UID != first.UID {
		e.Error("while it said that the Pod is terminating, it was not there")
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
	if told := e.awaitEvent("web", "ErrResourceExists"); told != message {
		e.Errorf("the event says %q", told)
	}
	e.awaitCondition("web", v1alpha1.ConditionConflict, metav1.ConditionTrue, "ErrResourceExists")
	if pod := e.pod("web"); pod == nil || pod.UID != foreign.UID || pod.DeletionTimestamp != nil || len(pod.Labels) > 0 {
		e.Error("the foreign Pod was touched")
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
			return "the label is not back"
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
			return "it is not gone yet"
		}
		return ""
	})
	e.create(immortal("web"))
	e.awaitCondition("web", v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonWaitingForTermination)
	if _, second := e.awaitReady("web", 1); first.UID == second.UID {
		e.Error("the Pod of the earlier object was taken")
	}
	for _, event := range e.events("web") {
		if event.Type == corev1.EventTypeWarning {
			e.Errorf("there was a warning: %s %s", event.Reason, event.Message)
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
	e.eventually(func() string { // a quota refuses all until it is counted
		quota, err := e.kube.CoreV1().ResourceQuotas(e.namespace).Get(e.Context(), "none", metav1.GetOptions{})
		if err != nil || quota.Status.Hard == nil {
			return "the quota is not counted yet"
		}
		return ""
	})
	e.create(immortal("web"))
	if message := e.awaitCondition("web", v1alpha1.ConditionReady, metav1.ConditionFalse, "Forbidden"); !strings.Contains(message, "exceeded quota: none") {
		e.Errorf("the condition says %q", message)
	}
	if message := e.awaitEvent("web", "FailedCreate"); !strings.Contains(message, "exceeded quota: none") {
		e.Errorf("the event says %q", message)
	}
	if container := e.get("web"); container.Status.CurrentPod != "" || container.Status.StartTimes != 1 {
		e.Error(describe(container))
	}
	e.kubectl("delete", "resourcequota", "none")
	e.awaitReady("web", 1)
	if warnings := e.warnings("web"); warnings > 2 {
		e.Errorf("there were %d warnings of one thing", warnings)
	}
}

func invalidTemplate(e *env) {
	e.create(immortal("web", func(container *v1alpha1.ImmortalContainer) {
		container.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "Not A Name", Image: "x"}}}}
	}))
	if message := e.awaitCondition("web", v1alpha1.ConditionReady, metav1.ConditionFalse, "Invalid"); !strings.Contains(message, "Not A Name") {
		e.Errorf("the condition says %q", message)
	}
	e.awaitEvent("web", "FailedCreate")
	e.patch("web", `{"spec":{"template":null}}`)
	e.awaitReady("web", 1)
	if warnings := e.warnings("web"); warnings != 1 {
		e.Errorf("there were %d warnings of one thing", warnings)
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
	e.kubectl("delete", "ic", "web", "--cascade=foreground", "--timeout=30s")
	if pod := e.pod("web"); pod != nil {
		e.Errorf("the Pod is still there: %+v", pod.Status)
	}
}

func namespaceDeletion(e *env) {
	for i := range 5 {
		e.create(immortal(fmt.Sprintf("web-%d", i)))
	}
	for i := range 5 {
		e.awaitReady(fmt.Sprintf("web-%d", i), 1)
	}
	if err := e.kube.CoreV1().Namespaces().Delete(e.Context(), e.namespace, metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
	e.eventually(func() string {
		namespace, err := e.kube.CoreV1().Namespaces().Get(e.Context(), e.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("the namespace is still there: %+v", namespace.Status)
	})
}

func longestName(e *env) {
	name := strings.Repeat("a", 241)
	e.create(immortal(name))
	e.awaitReady(name, 1)
}
