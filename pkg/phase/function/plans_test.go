// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"cmp"
	"context"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// newFunctions returns the functions of a process that ends with the test.
func newFunctions(t *testing.T, env phase.Environment) *Functions {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	env.Wake, env.ServiceAccount = func(phase.ID) {}, "runner"
	functions := New(ctx, env)
	t.Cleanup(func() {
		stop()
		functions.Wait()
	})
	return functions
}

// builtPod returns the Pod that a call creates. The subject of its action is in the namespace apps, if the call has no other.
func builtPod(t *testing.T, client *fake.Clientset, function string, call phase.Call) (*corev1.Pod, error) {
	t.Helper()
	call.Action.Namespace = cmp.Or(call.Action.Namespace, "apps")
	functions := newFunctions(t, phase.Environment{Client: client})
	intent, err := functions.Get(function).Validate(t.Context(), call)
	if err != nil {
		return nil, err
	}
	call.Intent = intent
	found, err := functions.Get(function).Start(t.Context(), call)
	if err != nil {
		return nil, err
	}
	wantState(t, "the start", found, phase.Ready)
	var pod *corev1.Pod
	for _, action := range client.Actions() {
		if created, ok := action.(clienttesting.CreateAction); ok {
			pod = created.GetObject().(*corev1.Pod)
		}
	}
	// Another call makes a Pod of the same name.
	return pod, client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{})
}

func mustBuild(t *testing.T, client *fake.Clientset, function string, call phase.Call) *corev1.Pod {
	t.Helper()
	pod, err := builtPod(t, client, function, call)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestPodSpec(t *testing.T) {
	pod := mustBuild(t, fake.NewClientset(), "KubeTask", phase.Call{ID: testID, Args: map[string]any{"image": "tools", "command": []any{"sh", "-c", "work"}}})
	if !regexp.MustCompile(`^kanister-job-[bcdfghjklmnpqrstvwxz2456789]{10}$`).MatchString(pod.Name) {
		t.Errorf("its name is %q", pod.Name)
	}
	wantEqual(t, "the Pod", pod, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: "apps",
			Labels: map[string]string{
				"createdBy": "kanister", "app.kubernetes.io/managed-by": "millwright",
				"millwright.dev/actionset-uid": "5a11", "millwright.dev/phase": "0.1",
			},
			Annotations:     map[string]string{"millwright.dev/actionset": "apps/backup-x", "millwright.dev/nonce": pod.Annotations["millwright.dev/nonce"]},
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

func TestMultiContainerPod(t *testing.T) {
	call := phase.Call{
		ID: testID,
		Args: map[string]any{
			"namespace": "elsewhere", "initImage": "i", "initCommand": []any{"prepare"}, "backgroundImage": "b", "backgroundCommand": []any{"serve"},
			"outputImage": "o", "outputCommand": []any{"report"}, "sharedVolumeMedium": "Memory", "sharedVolumeSizeLimit": "1Gi", "sharedVolumeDir": "/shared",
		},
		Action: phase.Action{PodOverride: map[string]any{"containers": []any{
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
	pod := mustBuild(t, fake.NewClientset(), "MultiContainerRun", call)
	wantEqual(t, "containers", pod.Spec.Containers, []corev1.Container{container("output", "o", "report", "all"), container("background", "b", "serve", "own")})
	wantEqual(t, "init containers", pod.Spec.InitContainers, []corev1.Container{container("init", "i", "prepare", "all")})
	wantEqual(t, "the volume", pod.Spec.Volumes, []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: ptr.To(resource.MustParse("1Gi"))},
	}}})
	wantEqual(t, "whose log kubectl shows", pod.Annotations["kubectl.kubernetes.io/default-container"], "output")

	for _, argument := range []string{"initImage", "initCommand", "sharedVolumeDir"} {
		delete(call.Args, argument)
	}
	pod = mustBuild(t, fake.NewClientset(), "MultiContainerRun", call)
	wantEqual(t, "without an init container", pod.Spec.InitContainers, nil)
	wantEqual(t, "where the volume is by default", pod.Spec.Containers[0].VolumeMounts, mounts("/tmp/"))
	for _, limit := range []string{"much", "1e-999999999"} {
		call.Args["sharedVolumeSizeLimit"] = limit
		if _, err := builtPod(t, fake.NewClientset(), "MultiContainerRun", call); err == nil {
			t.Errorf("the limit %s is taken", limit)
		}
	}
}

func claimOf(name string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes},
	}
}

func TestVolumes(t *testing.T) {
	client := fake.NewClientset(claimOf("data", "ReadWriteOnce"), claimOf("old.data", "ReadOnlyMany"))
	workload := &blueprint.Workload{PersistentVolumeClaims: map[string]map[string]string{"pg-0": {"data": "/var"}, "pg-1": {"old.data": "/var"}}}
	call := func(volumes map[string]any, action phase.Action) phase.Call {
		args := map[string]any{"namespace": "db", "image": "i", "command": []any{"c"}, "serviceaccount": "helper"}
		if volumes != nil {
			args["volumes"] = volumes
		}
		return phase.Call{ID: testID, Args: args, Action: action}
	}
	mounts := func(c phase.Call) map[string]corev1.VolumeMount {
		pod := mustBuild(t, client, "PrepareData", c)
		wantEqual(t, "the account", pod.Spec.ServiceAccountName, "helper")
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
	wantEqual(t, "of a StatefulSet", mounts(call(nil, phase.Action{StatefulSet: workload})), want)
	wantEqual(t, "of a Deployment", mounts(call(nil, phase.Action{Deployment: workload})), want)
	wantEqual(t, "given ones", mounts(call(map[string]any{"data": "/in"}, phase.Action{StatefulSet: workload})), map[string]corev1.VolumeMount{"data": {MountPath: "/in"}})

	for text, c := range map[string]phase.Call{
		"Failed to get volumes":                   call(nil, phase.Action{}),
		"No volumes found":                        call(nil, phase.Action{Deployment: &blueprint.Workload{}}),
		`persistentvolumeclaims "none" not found`: call(map[string]any{"none": "/in"}, phase.Action{}),
	} {
		_, err := builtPod(t, client, "PrepareData", c)
		got, _ := phase.FailureOf(err)
		wantEqual(t, "the failure", got, text)
	}
}

func TestFailOnError(t *testing.T) {
	for failOnError, want := range map[string]bool{"": true, "false": true, "true": false} {
		client := fake.NewClientset(claimOf("data", "ReadWriteOnce"))
		plan := planPrepareData(client)
		call := phase.Call{ID: testID, Args: map[string]any{"namespace": "db", "image": "i", "command": "c", "volumes": map[string]any{"data": "/in"}}}
		if failOnError != "" {
			call.Args["failOnError"] = failOnError
		}
		for _, intent := range []map[string]any{nil, {}} {
			call.Intent = intent
			planned, err := plan(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "ignored with failOnError "+failOnError, planned.IgnoreFailure, want)
		}
		wantEqual(t, "requests, which are made before the intent is recorded alone", len(client.Actions()), 1)
	}
}
