// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

var update = flag.Bool("update", false, "write the golden files again")

// specFrom reads a spec as a user writes it.
func specFrom(t testing.TB, file string) v1alpha1.ImmortalContainerSpec {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var spec v1alpha1.ImmortalContainerSpec
	if err := yaml.UnmarshalStrict(text, &spec); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return spec
}

func withSpec(spec v1alpha1.ImmortalContainerSpec) containerOption {
	return func(container *v1alpha1.ImmortalContainer) { container.Spec = spec }
}

func withTemplate(template corev1.PodTemplateSpec) containerOption {
	return func(container *v1alpha1.ImmortalContainer) { container.Spec.Template = &template }
}

func withContainers(containers ...corev1.Container) containerOption {
	return withTemplate(corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: containers}})
}

func TestThePodOfASpecIsTheGoldenOne(t *testing.T) {
	for _, name := range []string{"minimal", "rich"} {
		t.Run(name, func(t *testing.T) {
			container := newContainer(withSpec(specFrom(t, name+".yaml")))
			before := container.DeepCopy()
			pod := newPod(container, 3)
			if diff := cmp.Diff(before, container); diff != "" {
				t.Errorf("building the Pod changed the ImmortalContainer (-before +after):\n%s", diff)
			}
			// What the hash is has a test of its own.
			if got := pod.Annotations[AnnotationSpecHash]; got != specHash(container.Spec) {
				t.Errorf("the spec's hash is %q, want %q", got, specHash(container.Spec))
			}
			pod.Annotations[AnnotationSpecHash] = "HASH"

			golden := filepath.Join("testdata", name+".pod.yaml")
			got, err := yaml.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("Pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodIsADeepCopy(t *testing.T) {
	container := newContainer(withSpec(specFrom(t, "rich.yaml")))
	before := container.DeepCopy()
	pod := newPod(container, 1)
	pod.Labels["app"], pod.Annotations["more"], pod.Finalizers[0] = "changed", "changed", "changed"
	pod.Spec.Containers[0].Image, pod.Spec.Containers[1].Env[0].Name = "changed", "changed"
	pod.Spec.Volumes[0].Name, *pod.Spec.TerminationGracePeriodSeconds = "changed", 1
	if diff := cmp.Diff(before, container); diff != "" {
		t.Errorf("changing the Pod changed the ImmortalContainer (-before +after):\n%s", diff)
	}
}

func TestImageOverridesTheTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		option containerOption
		want   []string // name and image
	}{
		"without a template it is the only one": {
			func(*v1alpha1.ImmortalContainer) {}, []string{"acontainer nginx:1"}},
		"with an empty template, too": {
			withTemplate(corev1.PodTemplateSpec{}), []string{"acontainer nginx:1"}},
		"it goes before sidecars, so that kubectl logs and exec find it": {
			withContainers(corev1.Container{Name: "proxy", Image: "envoy"}, corev1.Container{Name: "logs", Image: "fluent"}),
			[]string{"acontainer nginx:1", "proxy envoy", "logs fluent"}},
		"where the template has it, it stays where it is": {
			withContainers(corev1.Container{Name: "proxy", Image: "envoy"}, corev1.Container{Name: "acontainer"}),
			[]string{"proxy envoy", "acontainer nginx:1"}},
		"its image in the template loses": {
			withContainers(corev1.Container{Name: "acontainer", Image: "other"}), []string{"acontainer nginx:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range newPod(newContainer(tc.option), 1).Spec.Containers {
				got = append(got, c.Name+" "+c.Image)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestartPolicy(t *testing.T) {
	for template, want := range map[corev1.RestartPolicy]corev1.RestartPolicy{
		"": corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways: corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure: corev1.RestartPolicyOnFailure,
	} {
		option := withTemplate(corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: template}})
		if got := newPod(newContainer(option), 1).Spec.RestartPolicy; got != want {
			t.Errorf("with %q in the template it is %q, want %q", template, got, want)
		}
	}
}

func TestOurMarksWinOverThoseOfTheTemplate(t *testing.T) {
	var template corev1.PodTemplateSpec
	template.Name, template.Namespace, template.GenerateName = "mine", "elsewhere", "mine-"
	template.Labels = map[string]string{controller.LabelManagedBy: "helm", LabelControllerUID: "uid-mine", "app": "shop"}
	template.Annotations = map[string]string{AnnotationSpecHash: "mine", AnnotationStart: "99", "note": "kept"}
	container := newContainer(withTemplate(template))
	pod := newPod(container, 4)

	if pod.Name != "x-immortalpod" || pod.Namespace != "default" || pod.GenerateName != "" {
		t.Errorf("the Pod is %s/%s%s, want default/x-immortalpod", pod.Namespace, pod.Name, pod.GenerateName)
	}
	wantLabels := map[string]string{controller.LabelManagedBy: "millwright", LabelControllerUID: "uid-x", "app": "shop"}
	if diff := cmp.Diff(wantLabels, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantAnnotations := map[string]string{AnnotationSpecHash: specHash(container.Spec), AnnotationStart: "4", "note": "kept"}
	if diff := cmp.Diff(wantAnnotations, pod.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestLongestName(t *testing.T) {
	name := strings.Repeat("n", 241)
	container := newContainer(func(c *v1alpha1.ImmortalContainer) {
		c.Name, c.UID = name, "7f3c9d52-0d0c-4a55-9e22-7f3c9d520d0c"
	})
	pod := newPod(container, 1)
	if problems := validation.IsDNS1123Subdomain(pod.Name); len(problems) > 0 {
		t.Errorf("the Pod's name is not accepted: %v", problems)
	}
	for key, value := range pod.Labels {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("the label %s=%s is not accepted: %v", key, value, problems)
		}
	}
	if got, ok := containerName(pod.Name); !ok || got != name {
		t.Errorf("the Pod leads back to %q (%t), want %q", got, ok, name)
	}
}

func TestAPodsNameLeadsBackToItsContainer(t *testing.T) {
	for pod, want := range map[string]string{
		"x-immortalpod": "x", "x-immortalpod-immortalpod": "x-immortalpod", "x": "", "x-immortalpods": "", "immortalpod": "",
	} {
		got, ok := containerName(pod)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s leads to %q (%t), want %q", pod, got, ok, want)
		}
	}
}

func TestPodWithoutStartIsStartZero(t *testing.T) {
	for annotation, want := range map[string]int64{"5": 5, "": 0, "five": 0, "1e3": 0, "99999999999999999999": 0} {
		pod := podOf(1)
		pod.Annotations[AnnotationStart] = annotation
		if got := startOf(pod); got != want {
			t.Errorf("%q is start %d, want %d", annotation, got, want)
		}
	}
}
