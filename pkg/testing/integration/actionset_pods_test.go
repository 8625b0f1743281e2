// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// taskPhase returns a phase that runs an image with KubeTask.
func taskPhase(phase, image string, more ...string) string {
	return fmt.Sprintf("{func: KubeTask, name: %s, args: {namespace: $NS, image: %s, command: [go]%s}}", phase, image, strings.Join(more, ""))
}

const (
	longLine  = 100_000
	longValue = 70_000
)

// images has the programs for tests of functions that create Pods.
var images = map[string]program{
	"two-outputs": func(_ context.Context, c *call) int {
		c.output("a", "first")
		c.output("b", "two")
		c.print("something else")
		fmt.Fprint(c.stdout, "a line may begin otherwise ")
		c.output("a", "last")
		return 0
	},
	"long": func(_ context.Context, c *call) int {
		c.print("%s", strings.Repeat("x", longLine))
		c.output("before", "y")
		c.output("long", strings.Repeat("z", longValue))
		return 0
	},
	"exits-3": func(_ context.Context, c *call) int {
		c.output("lost", "x")
		for i := range 12 {
			c.print("line %d", i)
		}
		return 3
	},
	"bad-output": func(ctx context.Context, c *call) int {
		c.print("###Phase-output###: not json")
		return sleeps(ctx, c)
	},
	"fills": func(_ context.Context, c *call) int {
		if dir := c.pod.Spec.InitContainers[0].VolumeMounts[0].MountPath; dir != "/shared" {
			c.print("the volume is mounted at %s", dir)
			return 1
		}
		return 0
	},
	"serves": func(_ context.Context, c *call) int {
		c.output("from", "the background")
		return 0
	},
	"quiet": func(context.Context, *call) int { return 0 },
	"fails": func(_ context.Context, c *call) int { c.print("the background fails"); return 9 },
}

const multi = "{func: MultiContainerRun, name: %s, args: {namespace: $NS, initImage: %s, initCommand: [go], " +
	"backgroundImage: %s, backgroundCommand: [go], outputImage: %s, outputCommand: [go], sharedVolumeDir: /shared}}"

// preparePhase returns a phase that runs an image with PrepareData on the PersistentVolumeClaim data.
func preparePhase(phase, image string, more ...string) string {
	return fmt.Sprintf("{func: PrepareData, name: %s, args: {namespace: $NS, image: %s, command: [go], volumes: {data: /mnt/data}%s}}",
		phase, image, strings.Join(more, ""))
}

const tenLines = "line 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\nline 10\nline 11"

var podScenarios = map[string]scenario{
	"kubetask-output": {
		blueprint: goPhases(taskPhase("task", "two-outputs")),
		events:    []string{"SA go", "SP task", "EP task", "UC"},
		end:       "complete task=complete; 100%",
	},
	"kubetask-exit": {
		blueprint: goPhases(taskPhase("task", "exits-3"), createPhase("second")),
		events: []string{"SA go", "SP task", `F Failed to execute phase: {"pod":"kanister-job-x"}: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container container exited with code 3\nlast lines of the log of container container:\n" + tenLines},
		end: `failed task=failed second=pending; 0%; {"pod":"kanister-job-x"}: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container container exited with code 3\nlast lines of the log of container container:\n" + tenLines,
	},
	"kubetask-long-line": {
		blueprint: goPhases(taskPhase("task", "long")),
		events:    []string{"SA go", "SP task", "EP task", "UC"},
		end:       "complete task=complete; 100%",
	},
	"kubetask-bad-output": {
		blueprint: goPhases(taskPhase("task", "bad-output")),
		events:    []string{"SA go", "SP task", "F Failed to execute phase: Failed to unmarshal key-value pair: invalid character 'o' in literal null (expecting 'u')"},
		end:       "failed task=failed; 0%; Failed to unmarshal key-value pair: invalid character 'o' in literal null (expecting 'u')",
	},
	"multi": {
		blueprint: goPhases(fmt.Sprintf(multi, "run", "fills", "serves", "two-outputs")),
		events:    []string{"SA go", "SP run", "EP run", "UC"},
		end:       "complete run=complete; 100%",
	},
	"multi-background-fails": {
		blueprint: goPhases(fmt.Sprintf(multi, "run", "fills", "fails", "two-outputs")),
		events: []string{"SA go", "SP run", `F Failed to execute phase: {"pod":"kanister-job-x"}: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container background exited with code 9\nlast lines of the log of container background:\nthe background fails"},
		end: `failed run=failed; 0%; {"pod":"kanister-job-x"}: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container background exited with code 9\nlast lines of the log of container background:\nthe background fails",
	},
	"multi-init-fails": {
		blueprint: goPhases(fmt.Sprintf(multi, "run", "fails", "serves", "two-outputs")),
		events: []string{"SA go", "SP run", `F Failed to execute phase: {"pod":"kanister-job-x"}: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container init exited with code 9\nlast lines of the log of container init:\nthe background fails"},
		end: `failed run=failed; 0%; {"pod":"kanister-job-x"}: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container init exited with code 9\nlast lines of the log of container init:\nthe background fails",
	},
	"prepare-fail-on-error": {
		blueprint: goPhases(preparePhase("default", "exits-3"), preparePhase("strict", "exits-3", ", failOnError: true")),
		events: []string{"SA go", "SP default", "EP default", "SP strict",
			`F Failed to execute phase: {"pod":"prepare-data-job-x"}: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
				"container container exited with code 3\nlast lines of the log of container container:\n" + tenLines},
		end: `failed default=complete strict=failed; 50%; {"pod":"prepare-data-job-x"}: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container container exited with code 3\nlast lines of the log of container container:\n" + tenLines,
	},
	"prepare-missing-claim": {
		blueprint: goPhases(strings.ReplaceAll(preparePhase("data", "quiet"), "{data: ", "{none: ")),
		events:    []string{"SA go", "SP data", `F Failed to execute phase: persistentvolumeclaims "none" not found`},
		end:       `failed data=failed; 0%; persistentvolumeclaims "none" not found`,
	},
	"prepare-no-volumes": {
		blueprint: goPhases(strings.ReplaceAll(preparePhase("data", "quiet"), "volumes: {data: /mnt/data}", "volumes: {}")),
		events:    []string{"SA go", "SP data", "F Failed to execute phase: Failed to get volumes"},
		end:       "failed data=failed; 0%; Failed to get volumes",
	},
	"defer-task": {
		blueprint: goPhases(createPhase("first")) + withDefer(taskPhase("cleanup", "exits-3")),
		events: []string{"SA go", "SP first", "EP first", "SD cleanup", `F Failed to execute defer phase: Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container container exited with code 3\nlast lines of the log of container container:\n" + tenLines},
		end: `failed first=complete defer cleanup=failed; 100%; Failed while waiting for Pod to complete: Pod failed to complete in time: ` +
			"container container exited with code 3\nlast lines of the log of container container:\n" + tenLines,
	},
}

func TestActionSetPhasePodOutput(t *testing.T) {
	e := newActionsEnv(t)
	e.startNode(images)
	e.createClaim("data", corev1.ReadWriteOnce)
	e.run(nil)
	e.playScenarios(podScenarios)

	for set, want := range map[string]map[string]map[string]any{
		"kubetask-output":       {"task": {"a": "last", "b": "two"}},
		"kubetask-long-line":    {"task": {"before": "y", "long": strings.Repeat("z", longValue)}},
		"multi":                 {"run": {"a": "last", "b": "two"}},
		"prepare-fail-on-error": {"default": {"lost": "x"}, "strict": nil},
	} {
		for phase, output := range want {
			if diff := cmp.Diff(output, outputs(t, e.getSet(set), phase)); diff != "" {
				t.Errorf("output of ActionSet %s (-want +got):\n%s", set, diff)
			}
		}
	}
}

// createClaim creates a PersistentVolumeClaim that is bound to a volume. The volume exists in the API server only.
func (e *actionsEnv) createClaim(name string, mode corev1.PersistentVolumeAccessMode) {
	e.Helper()
	modes, size := []corev1.PersistentVolumeAccessMode{mode}, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume, err := e.kube.CoreV1().PersistentVolumes().Create(e.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: e.namespace + "-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: e.namespace, Name: name},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		if err := e.kube.CoreV1().PersistentVolumes().Delete(context.Background(), volume.Name, metav1.DeleteOptions{}); err != nil {
			e.Errorf("deleting PersistentVolume %s: %v", volume.Name, err)
		}
	})
	_, err = e.kube.CoreV1().PersistentVolumeClaims(e.namespace).Create(e.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: volume.Name, StorageClassName: ptr.To(""), Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// The Pod of a phase has the fields that Kanister's Pods have and those that the Blueprint and the ActionSet give.
func TestActionSetPhasePodSpec(t *testing.T) {
	e := newActionsEnv(t)
	held := newGate()
	e.startNode(map[string]program{"held": func(ctx context.Context, c *call) int { held.pass(ctx, c); return 0 }})
	e.run(nil)
	e.blueprint("override", goPhases(`{func: KubeTask, name: task, args: {
    image: held, command: [sh, -c, 'echo {{ .Options.word }}'],
    podOverride: {terminationGracePeriodSeconds: 5, containers: [{name: container, env: [{name: A, value: blueprint}, {name: B, value: blueprint}]}]},
    podLabels: {both: blueprint, mine: blueprint}, podAnnotations: {both: blueprint}}}`))
	e.actionSet("override", `{name: go, blueprint: $ME, options: {word: hello}, object: {kind: Namespace, name: $NS, namespace: $NS},
    podOverride: {nodeName: `+e.node.name+`, tolerations: [{operator: Exists}], terminationGracePeriodSeconds: 7,
      containers: [{name: container, env: [{name: A, value: set}]}, {name: aside, image: sleep}]},
    podLabels: {both: set, other: set}, podAnnotations: {both: set, other: set}}`)
	pod := held.await(e.env).pod
	container := pod.Spec.Containers[0]
	got := map[string]any{
		"namespace": pod.Namespace, "account": pod.Spec.ServiceAccountName, "grace": *pod.Spec.TerminationGracePeriodSeconds,
		"restart": pod.Spec.RestartPolicy, "containers": len(pod.Spec.Containers), "name": container.Name, "image": container.Image,
		"pull": container.ImagePullPolicy, "command": container.Command, "env": container.Env, "aside": pod.Spec.Containers[1].Name,
		"labels": []string{pod.Labels["createdBy"], pod.Labels["both"], pod.Labels["mine"], pod.Labels["other"]},
		"notes":  []string{pod.Annotations["both"], pod.Annotations["other"]},
		"prefix": strings.HasPrefix(pod.Name, "kanister-job-"), "node": pod.Spec.NodeName,
	}
	want := map[string]any{
		"namespace": e.namespace, "account": "default", "grace": int64(7), "restart": corev1.RestartPolicyNever, "containers": 2,
		"name": "container", "image": "held", "pull": corev1.PullIfNotPresent, "command": []string{"sh", "-c", "echo hello"},
		"env": []corev1.EnvVar{{Name: "A", Value: "set"}, {Name: "B", Value: "blueprint"}}, "aside": "aside",
		"labels": []string{"kanister", "blueprint", "blueprint", "set"}, "notes": []string{"blueprint", "set"}, "prefix": true, "node": e.node.name,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Pod (-want +got):\n%s", diff)
	}
	if owner := metav1.GetControllerOf(pod); owner != nil || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].Name != "override" {
		t.Errorf("got the owners %+v and the controller %+v, want the ActionSet as owner and no controller", pod.OwnerReferences, owner)
	}
	// The ActionSet shows the phase while it runs.
	set := e.awaitPhase("override", "task", v1alpha1.StateRunning)
	if set.Status.Progress.RunningPhase != "task" || len(set.Finalizers) != 1 {
		t.Errorf("got %s with the finalizers %q, want the phase task running and one finalizer", summary(set), set.Finalizers)
	}
	row := strings.Fields(e.kubectl("get", "actionset", "override", "--no-headers"))
	if len(row) < 5 || row[0] != "override" || row[len(row)-2] != "running" || row[1] != "0" || !strings.Contains(strings.Join(row, " "), " task ") {
		t.Errorf("kubectl get: got %q, want the phase task running", row)
	}
	e.deleteSet("override")
	e.wantCleanUp(set)
}
