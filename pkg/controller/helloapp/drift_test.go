// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

func TestWhatIsDriftOfADeploymentAndWhatIsNot(t *testing.T) {
	container := func(change func(*corev1.Container)) deploymentOption {
		return func(d *appsv1.Deployment) { change(&d.Spec.Template.Spec.Containers[0]) }
	}
	const inContainer = "spec.template.spec.containers[x]"
	for name, tc := range map[string]struct {
		change deploymentOption
		want   []string
	}{
		"nothing":                                   {func(*appsv1.Deployment) {}, nil},
		"what the API server fills in is none":      {defaulted, nil},
		"a status is none":                          {rolledOut, nil},
		"labels and annotations of others are none": {func(d *appsv1.Deployment) { d.Labels["team"], d.Annotations["note"] = "a", "b" }, nil},
		"another owner that is no controller is none": {func(d *appsv1.Deployment) {
			d.OwnerReferences = append([]metav1.OwnerReference{{Kind: "Team", Name: "a", UID: "uid-a"}}, d.OwnerReferences...)
		}, nil},
		"a sidecar is none": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "envoy"}}, d.Spec.Template.Spec.Containers...)
		}, nil},
		"a label, an annotation of the Pods are none": {func(d *appsv1.Deployment) {
			d.Spec.Template.Labels["a"], d.Spec.Template.Annotations = "b", map[string]string{"restarted": "now"}
		}, nil},
		"a variable more is none": {container(func(c *corev1.Container) { c.Env = append([]corev1.EnvVar{{Name: "A"}}, c.Env...) }), nil},
		"a port more is none": {container(func(c *corev1.Container) {
			c.Ports = append([]corev1.ContainerPort{{ContainerPort: 9, Protocol: "TCP"}}, c.Ports...)
		}), nil},
		"a limit more is none": {container(func(c *corev1.Container) { c.Resources.Limits["memory"] = resource.MustParse("1Gi") }), nil},
		"an equal quantity is none": {container(func(c *corev1.Container) {
			c.Resources.Limits["cpu"], c.Resources.Requests["memory"] = resource.MustParse("1000m"), resource.MustParse("1073741824")
		}), nil},

		"replicas":            {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](9) }, []string{"spec.replicas"}},
		"the image":           {container(func(c *corev1.Container) { c.Image = "b" }), []string{inContainer + ".image"}},
		"the container":       {container(func(c *corev1.Container) { c.Name = "y" }), []string{inContainer}},
		"a variable's value":  {container(func(c *corev1.Container) { c.Env[0].Value = "slow" }), []string{inContainer + ".env[MODE].value"}},
		"a variable's source": {container(func(c *corev1.Container) { c.Env[3].ValueFrom.SecretKeyRef.Key = "b" }), []string{inContainer + ".env[PASSWORD].valueFrom.secretKeyRef.key"}},
		"a variable less":     {container(func(c *corev1.Container) { c.Env = c.Env[1:] }), []string{inContainer + ".env[MODE]"}},
		"a quantity":          {container(func(c *corev1.Container) { c.Resources.Limits["cpu"] = resource.MustParse("2") }), []string{inContainer + ".resources.limits.cpu"}},
		"no quantities": {
			container(func(c *corev1.Container) { c.Resources = corev1.ResourceRequirements{Limits: c.Resources.Limits} }),
			[]string{inContainer + ".resources.requests.cpu", inContainer + ".resources.requests.memory"}},
		"the port": {container(func(c *corev1.Container) { c.Ports[0].ContainerPort = 81 }), []string{inContainer + ".ports[8080/TCP]"}},
		"a pull secret": {
			func(d *appsv1.Deployment) { d.Spec.Template.Spec.ImagePullSecrets = nil },
			[]string{"spec.template.spec.imagePullSecrets[mirror]", "spec.template.spec.imagePullSecrets[registry]"}},
		"the ServiceAccount": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "default" }, []string{"spec.template.spec.serviceAccountName"}},
		"our label":          {deployed(unlabelled), []string{"metadata.labels.app.kubernetes.io/managed-by"}},
		"the hash":           {func(d *appsv1.Deployment) { d.Annotations[AnnotationSpecHash] = "0" }, []string{"metadata.annotations.apps.anupam.com/spec-hash"}},
		"all annotations": {
			func(d *appsv1.Deployment) { d.Annotations = nil },
			[]string{"metadata.annotations." + AnnotationGeneration, "metadata.annotations." + AnnotationSpecHash}},
		"the owner":           {deployed(orphaned), []string{"metadata.ownerReferences[uid-x]"}},
		"the owner's control": {func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil }, []string{"metadata.ownerReferences[uid-x].controller"}},
		"a label of the Pods": {func(d *appsv1.Deployment) { delete(d.Spec.Template.Labels, "app") }, []string{"spec.template.metadata.labels.app"}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(withSpec(specFrom(t, "rich.yaml")))
			live := deploymentOf(app, tc.change)
			if diff := cmp.Diff(tc.want, drift(newDeployment(app, nil), live)); diff != "" {
				t.Errorf("drift (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsDriftOfAServiceAndWhatIsNot(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.ServiceSpec)
		want   []string
	}{
		"another type is none": {func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }, nil},
		"a port more is none": {func(s *corev1.ServiceSpec) {
			s.Ports = append(s.Ports, corev1.ServicePort{Name: "m", Port: 9, Protocol: "TCP"})
		}, nil},
		"another target port":     {func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort.IntVal = 9 }, []string{"spec.ports[80/TCP].targetPort"}},
		"another port":            {func(s *corev1.ServiceSpec) { s.Ports[0].Port = 9 }, []string{"spec.ports[80/TCP]"}},
		"no selector":             {func(s *corev1.ServiceSpec) { s.Selector = nil }, []string{"spec.selector"}},
		"a label more to select":  {func(s *corev1.ServiceSpec) { s.Selector["a"] = "b" }, []string{"spec.selector"}},
		"another label to select": {func(s *corev1.ServiceSpec) { s.Selector[labelInstance] = "y" }, []string{"spec.selector"}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(withPort(80))
			live := serviceOf(app)
			tc.change(&live.Spec)
			if diff := cmp.Diff(tc.want, drift(newService(app), live)); diff != "" {
				t.Errorf("drift (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoundedQuantityIsNoDrift(t *testing.T) {
	app := newApp()
	app.Spec.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("100u")}
	live := deploymentOf(app)
	live.Spec.Template.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("1m")
	if got := drift(newDeployment(app, nil), live); len(got) > 0 {
		t.Errorf("drift in %v", got)
	}
}

// What is generated from the API's types is taken to have their fields: an upgrade of client-go must not end in a panic.
func TestApplyConfigurationFields(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(want, have reflect.Type)
	walk = func(want, have reflect.Type) {
		for _, kind := range []reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Pointer} {
			if want.Kind() == kind {
				want = want.Elem()
			}
			if have.Kind() == kind {
				have = have.Elem()
			}
		}
		if want.Kind() != reflect.Struct || want == typeMetaType || want == quantityType || want == have || seen[want] {
			return
		}
		seen[want] = true
		for i, pair := range pairsOf(want, have) {
			if pair.index != nil {
				walk(want.Field(i).Type, have.FieldByIndex(pair.index).Type)
			} else {
				walk(want.Field(i).Type, have)
			}
		}
	}
	walk(reflect.TypeFor[appsapply.DeploymentApplyConfiguration](), reflect.TypeFor[appsv1.Deployment]())
	walk(reflect.TypeFor[coreapply.ServiceApplyConfiguration](), reflect.TypeFor[corev1.Service]())
	if len(seen) < 100 {
		t.Errorf("%d types were compared, want all that a Pod is made of", len(seen))
	}
}
