// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// builtPod is the Pod of a task. The subject of its action is in the namespace apps, if the call has no other.
func builtPod(t *testing.T, call phase.Call) (*corev1.Pod, error) {
	t.Helper()
	call.Action.Namespace = cmp.Or(call.Action.Namespace, "apps")
	plan, err := planTask(t.Context(), call)
	if err != nil {
		return nil, err
	}
	return plan.build(call, "runner")
}

func mustBuild(t *testing.T, call phase.Call) *corev1.Pod {
	t.Helper()
	pod, err := builtPod(t, call)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestPodNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, uid := range []types.UID{"a", "b"} {
		for action := range 30 {
			for index := phase.Deferred; index < 30; index++ {
				name := podName("job-", phase.ID{UID: uid, Action: action, Phase: index})
				if seen[name] {
					t.Fatalf("two Pods are named %s", name)
				}
				seen[name] = true
			}
		}
	}
	here, there := phase.ID{Namespace: "a", Name: "x", UID: "u"}, phase.ID{Namespace: "b", Name: "y", UID: "u"}
	podWant(t, "the name, which is of the UID and the phase alone", podName("job-", here), podName("job-", there))
}

func TestIDOfPod(t *testing.T) {
	for _, id := range []phase.ID{testID, {Namespace: "a", Name: "b.c", UID: "u", Action: 3, Phase: phase.Deferred}} {
		pod := mustBuild(t, phase.Call{ID: id, Args: map[string]any{"image": "i", "command": "c"}})
		got, ok := idOf(pod)
		podWant(t, "the phase", got, id)
		podWant(t, "whether the Pod is of a phase", ok, true)
		podWant(t, "is of it", hasLabelsOf(pod, id), true)
	}
	for _, label := range []string{"", "0", "x.1", "1.x", "00.1", "0.-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{phase.LabelActionSet: "u", phase.LabelPhase: label}, Annotations: map[string]string{phase.AnnotationActionSet: "a/b"},
		}}
		if id, ok := idOf(pod); ok {
			t.Errorf("the label %q leads to %v", label, id)
		}
	}
}

func TestPodOverridesAreMerged(t *testing.T) {
	pod := mustBuild(t, phase.Call{
		ID: testID,
		Args: map[string]any{
			"image": "tools", "command": "work",
			"podLabels":      map[string]any{"both": "blueprint", "b": "b", "createdBy": "me", "millwright.dev/phase": "9.9"},
			"podAnnotations": map[string]any{"both": "blueprint"},
			"podOverride": map[string]any{
				"terminationGracePeriodSeconds": 5, "nodeSelector": map[string]any{"disk": "fast"},
				"containers": []any{map[string]any{"name": "container", "env": []any{
					map[string]any{"name": "BOTH", "value": "blueprint"}, map[string]any{"name": "B", "value": "b"},
				}}},
			},
		},
		Action: phase.Action{
			PodLabels: map[string]string{"both": "actionset", "a": "a"}, PodAnnotations: map[string]string{"both": "actionset", "a": "a"},
			PodOverride: map[string]any{
				"terminationGracePeriodSeconds": 9, "serviceAccountName": "special",
				"containers": []any{
					map[string]any{"name": "aside", "image": "aside"},
					map[string]any{"name": "container", "imagePullPolicy": "Always", "env": []any{map[string]any{"name": "BOTH", "value": "actionset"}}},
				},
			},
		},
	})
	podWant(t, "labels", pod.Labels, map[string]string{
		"both": "blueprint", "a": "a", "b": "b", "createdBy": "kanister", "app.kubernetes.io/managed-by": "millwright",
		"millwright.dev/actionset-uid": "5a11", "millwright.dev/phase": "0.1",
	})
	podWant(t, "annotations", pod.Annotations, map[string]string{"both": "blueprint", "a": "a", "millwright.dev/actionset": "apps/backup-x"})
	env := map[string]string{}
	for _, variable := range pod.Spec.Containers[0].Env {
		env[variable.Name] = variable.Value
	}
	podWant(t, "variables", env, map[string]string{"BOTH": "actionset", "B": "b"})
	podWant(t, "the first container", pod.Spec.Containers[0].Name, "container")
	podWant(t, "its policy", pod.Spec.Containers[0].ImagePullPolicy, corev1.PullAlways)
	podWant(t, "its command", pod.Spec.Containers[0].Command, []string{"work"})
	podWant(t, "the second container", pod.Spec.Containers[1].Name, "aside")
	podWant(t, "the grace period", pod.Spec.TerminationGracePeriodSeconds, ptr.To[int64](9))
	podWant(t, "the account", pod.Spec.ServiceAccountName, "special")
	podWant(t, "the gate", gated(pod), true)
}

func TestNamedNode(t *testing.T) {
	here := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "In", Values: []string{"node-7"}}
	other := map[string]any{"matchExpressions": []any{map[string]any{"key": "disk", "operator": "Exists"}}}
	for name, affinity := range map[string]map[string]any{
		"nothing else":  nil,
		"another terms": {"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": []any{other, other}}}},
	} {
		override := map[string]any{"nodeName": "node-7"}
		if affinity != nil {
			override["affinity"] = affinity
		}
		pod := mustBuild(t, phase.Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}, Action: phase.Action{PodOverride: override}})
		podWant(t, name+": the node", pod.Spec.NodeName, "")
		terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for _, term := range terms {
			podWant(t, name, term.MatchFields, []corev1.NodeSelectorRequirement{here})
		}
		if affinity != nil {
			podWant(t, "expressions of the term", len(terms[1].MatchExpressions), 1)
		}
	}
}

// withLimit is an override of the container of a task.
func withLimit(name, quantity string) map[string]any {
	return map[string]any{"name": "container", "resources": map[string]any{"limits": map[string]any{name: quantity}}}
}

func TestQuantitiesOfAnOverride(t *testing.T) {
	for _, quantity := range []string{"1", "100m", "1e3", "5E-2", "1.5Gi", "12e+99"} {
		override := map[string]any{"containers": []any{withLimit("cpu", quantity)}}
		pod := mustBuild(t, phase.Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}, Action: phase.Action{PodOverride: override}})
		limit := pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]
		if want := resource.MustParse(quantity); limit.Cmp(want) != 0 {
			t.Errorf("%s became %s", quantity, limit.String())
		}
	}
	override := map[string]any{"nodeSelector": map[string]any{"release": "1e1000"}}
	pod := mustBuild(t, phase.Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}, Action: phase.Action{PodOverride: override}})
	podWant(t, "a label that looks like a large number", pod.Spec.NodeSelector["release"], "1e1000")
}

func TestLargeOverride(t *testing.T) {
	volumes := func(count, bytes int) map[string]any {
		var volumes []any
		for i := range count {
			volumes = append(volumes, map[string]any{"name": fmt.Sprintf("%0*d", bytes, i), "emptyDir": map[string]any{}})
		}
		return map[string]any{"volumes": volumes}
	}
	for _, test := range []struct {
		override map[string]any
		want     string
	}{
		{volumes(maxItems, 10), ""},
		{volumes(maxItems+1, 1), "podOverride has a list of 501 items; it may have at most 500"},
		{map[string]any{"containers": []any{map[string]any{"name": "container", "volumeMounts": make([]any, 600)}}}, "podOverride has a list of 600 items; it may have at most 500"},
		{volumes(400, 200), "bytes; it may have at most 65536"},
	} {
		for name, call := range map[string]phase.Call{
			"action": {Args: map[string]any{}, Action: phase.Action{PodOverride: test.override}},
			"phase":  {Args: map[string]any{"podOverride": test.override}},
		} {
			call.ID = testID
			call.Args["image"], call.Args["command"] = "i", "c"
			pod, err := builtPod(t, call)
			if text, _ := phase.FailureOf(err); !strings.Contains(text, test.want) || (err == nil) != (test.want == "") {
				t.Errorf("of the %s: the failure is %v, want one with %q", name, err, test.want)
			}
			if err == nil && len(pod.Spec.Volumes) != maxItems {
				t.Errorf("of the %s: the Pod has %d volumes", name, len(pod.Spec.Volumes))
			}
		}
	}
}

func TestInvalidOverride(t *testing.T) {
	for name, override := range map[string]map[string]any{
		"containers are no list":       {"containers": "x"},
		"a number is a text":           {"terminationGracePeriodSeconds": "soon"},
		"a quantity of a text":         {"containers": []any{withLimit("cpu", "much")}},
		"a number of a billion digits": {"containers": []any{withLimit("cpu", "1e-999999999")}},
		"the same in a volume":         {"volumes": []any{map[string]any{"name": "v", "emptyDir": map[string]any{"sizeLimit": "1E+999999999"}}}},
		"the same in a claim": {"volumes": []any{map[string]any{"name": "v", "ephemeral": map[string]any{"volumeClaimTemplate": map[string]any{
			"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1e999999999"}}}}}}}},
		"many digits":       {"overhead": map[string]any{"memory": "1" + strings.Repeat("0", 1<<20)}},
		"no main container": {"containers": []any{map[string]any{"name": "container", "$patch": "delete"}}},
	} {
		_, err := builtPod(t, phase.Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}, Action: phase.Action{PodOverride: override}})
		text, ok := phase.FailureOf(err)
		if !ok {
			t.Errorf("%s: the error is %v, want a failure", name, err)
		}
		podWantText(t, name, text, "podOverride")
	}
}

func TestDefaultServiceAccount(t *testing.T) {
	planned, err := planTask(t.Context(), phase.Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}})
	if err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]string{"runner": "runner", "": ""} {
		pod, err := planned.build(phase.Call{ID: testID, Action: phase.Action{Namespace: "apps"}}, account)
		if err != nil {
			t.Fatal(err)
		}
		podWant(t, "the account", pod.Spec.ServiceAccountName, want)
	}
}

func TestOperatorAccountIsRefused(t *testing.T) {
	for _, account := range phase.OperatorAccounts() {
		for name, c := range map[string]phase.Action{
			"serviceAccountName": {PodOverride: map[string]any{"serviceAccountName": account}},
			"serviceAccount":     {PodOverride: map[string]any{"serviceAccount": account}},
		} {
			_, err := builtPod(t, phase.Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}, Action: c})
			message, _ := phase.FailureOf(err)
			podWantText(t, name, message, "the ServiceAccount "+account+", which is the operator's")
		}
		planned, err := planTask(t.Context(), phase.Call{Args: map[string]any{"image": "i", "command": "c"}})
		if err != nil {
			t.Fatal(err)
		}
		planned.Args = blueprint.PodArgs{PodOverride: map[string]any{"serviceAccountName": account}}
		if _, err := planned.build(phase.Call{ID: testID, Action: phase.Action{Namespace: "apps"}}, ""); err == nil {
			t.Errorf("a Blueprint gives a Pod the account %s", account)
		}
		planned.Args = blueprint.PodArgs{}
		if _, err := planned.build(phase.Call{ID: testID, Action: phase.Action{Namespace: "apps"}}, account); err == nil {
			t.Errorf("a flag gives a Pod the account %s", account)
		}
	}
}
