// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"cmp"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/blueprint"
)

// builtPod is the Pod that a call makes. The subject of its action is in the namespace apps, if the call says nothing else.
func builtPod(t *testing.T, client kubernetes.Interface, function string, call Call) (*corev1.Pod, error) {
	t.Helper()
	call.Action.Namespace = cmp.Or(call.Action.Namespace, "apps")
	plan := map[string]func() (podPlan, error){
		"KubeTask":          func() (podPlan, error) { return planKubeTask(t.Context(), call) },
		"MultiContainerRun": func() (podPlan, error) { return planMultiContainerRun(t.Context(), call) },
		"PrepareData":       func() (podPlan, error) { return planPrepareData(client)(t.Context(), call) },
	}[function]
	planned, err := plan()
	if err != nil {
		return nil, err
	}
	return planned.build(call, "runner")
}

func mustBuild(t *testing.T, client kubernetes.Interface, function string, call Call) *corev1.Pod {
	t.Helper()
	pod, err := builtPod(t, client, function, call)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestThePodOfATaskIsAsUsersKnowIt(t *testing.T) {
	pod := mustBuild(t, nil, "KubeTask", Call{ID: testID, Args: map[string]any{"image": "tools", "command": []any{"sh", "-c", "work"}}})
	if !regexp.MustCompile(`^kanister-job-[bcdfghjklmnpqrstvwxz2456789]{10}$`).MatchString(pod.Name) {
		t.Errorf("its name is %q", pod.Name)
	}
	podWant(t, "the Pod", pod, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: "apps",
			Labels: map[string]string{
				"createdBy": "kanister", "app.kubernetes.io/managed-by": "millwright",
				"millwright.dev/actionset-uid": "5a11", "millwright.dev/phase": "0.1",
			},
			Annotations:     map[string]string{"millwright.dev/actionset": "apps/backup-x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "cr.kanister.io/v1alpha1", Kind: "ActionSet", Name: "backup-x", UID: "5a11"}},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: "Never", ServiceAccountName: "runner",
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "millwright.dev/recorded"}},
			Containers: []corev1.Container{{
				Name: "container", Image: "tools", Command: []string{"sh", "-c", "work"}, ImagePullPolicy: "IfNotPresent",
			}},
		},
	})
}

func TestThePodsOfPhasesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, uid := range []types.UID{"a", "b"} {
		for action := range 30 {
			for phase := Deferred; phase < 30; phase++ {
				name := podName("job-", ID{UID: uid, Action: action, Phase: phase})
				if seen[name] {
					t.Fatalf("two Pods are named %s", name)
				}
				seen[name] = true
			}
		}
	}
	here, there := ID{Namespace: "a", Name: "x", UID: "u"}, ID{Namespace: "b", Name: "y", UID: "u"}
	podWant(t, "the name, which is of the UID and the phase alone", podName("job-", here), podName("job-", there))
}

func TestAPodLeadsToThePhaseThatItWasMadeFor(t *testing.T) {
	for _, id := range []ID{testID, {Namespace: "a", Name: "b.c", UID: "u", Action: 3, Phase: Deferred}} {
		pod := mustBuild(t, nil, "KubeTask", Call{ID: id, Args: map[string]any{"image": "i", "command": "c"}})
		got, ok := idOf(pod)
		podWant(t, "the phase", got, id)
		podWant(t, "is told", ok, true)
		podWant(t, "is of it", isOf(pod, id), true)
	}
	for _, label := range []string{"", "0", "x.1", "1.x", "00.1", "0.-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{LabelActionSet: "u", LabelPhase: label}, Annotations: map[string]string{AnnotationActionSet: "a/b"},
		}}
		if id, ok := idOf(pod); ok {
			t.Errorf("the label %q leads to %v", label, id)
		}
	}
}

func TestWhatTheBlueprintAndTheActionSetSayOfAPodIsMerged(t *testing.T) {
	pod := mustBuild(t, nil, "KubeTask", Call{
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
		Action: Action{
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

func TestANodeThatIsNamedIsWhereThePodMustBe(t *testing.T) {
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
		pod := mustBuild(t, nil, "KubeTask", Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}, Action: Action{PodOverride: override}})
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

func TestAnOverrideThatFitsNoPodIsRefusedBeforeAnythingIsMade(t *testing.T) {
	for name, override := range map[string]map[string]any{
		"containers are no list": {"containers": "x"},
		"a number is a text":     {"terminationGracePeriodSeconds": "soon"},
		"no main container":      {"containers": []any{map[string]any{"name": "container", "$patch": "delete"}}},
	} {
		_, err := builtPod(t, nil, "KubeTask", Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}, Action: Action{PodOverride: override}})
		text, ok := FailureOf(err)
		if !ok {
			t.Errorf("%s: the error is %v, want a failure", name, err)
		}
		podWantText(t, name, text, "podOverride")
	}
}

func TestThreeContainersShareAVolume(t *testing.T) {
	call := Call{
		ID: testID,
		Args: map[string]any{
			"namespace": "elsewhere", "initImage": "i", "initCommand": []any{"prepare"}, "backgroundImage": "b", "backgroundCommand": []any{"serve"},
			"outputImage": "o", "outputCommand": []any{"report"}, "sharedVolumeMedium": "Memory", "sharedVolumeSizeLimit": "1Gi", "sharedVolumeDir": "/shared",
		},
		Action: Action{PodOverride: map[string]any{"containers": []any{
			map[string]any{"name": "container", "env": []any{map[string]any{"name": "X", "value": "all"}}},
			map[string]any{"name": "background", "env": []any{map[string]any{"name": "X", "value": "own"}}},
		}}},
	}
	mounts := func(dir string) []corev1.VolumeMount { return []corev1.VolumeMount{{Name: "shared", MountPath: dir}} }
	container := func(name, image, command, value string) corev1.Container {
		return corev1.Container{
			Name: name, Image: image, Command: []string{command}, ImagePullPolicy: "IfNotPresent",
			Env: []corev1.EnvVar{{Name: "X", Value: value}}, VolumeMounts: mounts("/shared"),
		}
	}
	pod := mustBuild(t, nil, "MultiContainerRun", call)
	podWant(t, "containers", pod.Spec.Containers, []corev1.Container{container("output", "o", "report", "all"), container("background", "b", "serve", "own")})
	podWant(t, "init containers", pod.Spec.InitContainers, []corev1.Container{container("init", "i", "prepare", "all")})
	podWant(t, "the volume", pod.Spec.Volumes, []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: ptr.To(resource.MustParse("1Gi"))},
	}}})
	podWant(t, "whose log kubectl shows", pod.Annotations["kubectl.kubernetes.io/default-container"], "output")

	for _, argument := range []string{"initImage", "initCommand", "sharedVolumeDir"} {
		delete(call.Args, argument)
	}
	pod = mustBuild(t, nil, "MultiContainerRun", call)
	podWant(t, "without an init container", pod.Spec.InitContainers, nil)
	podWant(t, "where the volume is by default", pod.Spec.Containers[0].VolumeMounts, mounts("/tmp/"))
	call.Args["sharedVolumeSizeLimit"] = "much"
	if _, err := builtPod(t, nil, "MultiContainerRun", call); err == nil {
		t.Error("a limit that is no quantity is taken")
	}
}

func claimOf(name string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes},
	}
}

func TestVolumesAreThoseThatAreGivenOrTheSubjects(t *testing.T) {
	client := fake.NewClientset(claimOf("data", "ReadWriteOnce"), claimOf("old.data", "ReadOnlyMany"))
	workload := &blueprint.Workload{PersistentVolumeClaims: map[string]map[string]string{"pg-0": {"data": "/var"}, "pg-1": {"old.data": "/var"}}}
	call := func(volumes map[string]any, action Action) Call {
		args := map[string]any{"namespace": "db", "image": "i", "command": []any{"c"}, "serviceaccount": "helper"}
		if volumes != nil {
			args["volumes"] = volumes
		}
		return Call{ID: testID, Args: args, Action: action}
	}
	mounts := func(c Call) map[string]corev1.VolumeMount {
		pod := mustBuild(t, client, "PrepareData", c)
		podWant(t, "the account", pod.Spec.ServiceAccountName, "helper")
		got := map[string]corev1.VolumeMount{}
		for i, volume := range pod.Spec.Volumes {
			claim, mount := volume.PersistentVolumeClaim, pod.Spec.Containers[0].VolumeMounts[i]
			if claim.ReadOnly != mount.ReadOnly || mount.Name != volume.Name {
				t.Errorf("volume %v is mounted as %v", volume, mount)
			}
			mount.Name = ""
			got[claim.ClaimName] = mount
		}
		return got
	}
	want := map[string]corev1.VolumeMount{"data": {MountPath: "/mnt/prepare_data/data"}, "old.data": {MountPath: "/mnt/prepare_data/old.data", ReadOnly: true}}
	podWant(t, "of a StatefulSet", mounts(call(nil, Action{StatefulSet: workload})), want)
	podWant(t, "of a Deployment", mounts(call(nil, Action{Deployment: workload})), want)
	podWant(t, "given ones", mounts(call(map[string]any{"data": "/in"}, Action{StatefulSet: workload})), map[string]corev1.VolumeMount{"data": {MountPath: "/in"}})

	for text, c := range map[string]Call{
		"Failed to get volumes":                   call(nil, Action{}),
		"No volumes found":                        call(nil, Action{Deployment: &blueprint.Workload{}}),
		`persistentvolumeclaims "none" not found`: call(map[string]any{"none": "/in"}, Action{}),
	} {
		_, err := builtPod(t, client, "PrepareData", c)
		got, _ := FailureOf(err)
		podWant(t, "the failure", got, text)
	}
}

func TestNobodySaysWhichAccountSoThatOfTheEnvironmentIsTaken(t *testing.T) {
	planned, err := planKubeTask(t.Context(), Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}})
	if err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]string{"runner": "runner", "": ""} {
		pod, err := planned.build(Call{ID: testID, Action: Action{Namespace: "apps"}}, account)
		if err != nil {
			t.Fatal(err)
		}
		podWant(t, "the account", pod.Spec.ServiceAccountName, want)
	}
}
