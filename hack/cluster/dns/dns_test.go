package dns

import (
	"context"
	"path"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

var settings = Settings{Node: "a-node", ServiceIP: "10.0.0.10"}

// decode returns the object of a manifest. It knows all of its fields.
func decode(t *testing.T, file string) runtime.Object {
	t.Helper()
	manifest, err := render(file, settings)
	if err != nil {
		t.Fatal(err)
	}
	object, _, err := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer().Decode(manifest, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return object
}

func TestEveryManifestIsAppliedToItsOwnPath(t *testing.T) {
	for _, o := range objects {
		object := decode(t, o.file)
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		// Here the resource is the plural of the kind by the usual rule.
		kind := object.GetObjectKind().GroupVersionKind()
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		want := "/api/" + kind.Version
		if kind.Group != "" {
			want = path.Join("/apis", kind.Group, kind.Version)
		}
		if accessor.GetNamespace() != "" {
			want = path.Join(want, "namespaces", accessor.GetNamespace())
		}
		if want = path.Join(want, resource.Resource, accessor.GetName()); o.path != want {
			t.Errorf("%s is applied to %s, want %s", o.file, o.path, want)
		}
	}
}

func TestServiceSelectsThePods(t *testing.T) {
	service := decode(t, "service.yaml").(*corev1.Service)
	if service.Spec.ClusterIP != settings.ServiceIP {
		t.Errorf("its address is %s", service.Spec.ClusterIP)
	}
	pod := decode(t, "deployment.yaml").(*appsv1.Deployment).Spec.Template
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the Pods do not have the label %s=%s", key, value)
		}
	}
	if pod.Spec.NodeSelector[corev1.LabelHostname] != settings.Node {
		t.Errorf("the Pods are for the node %v", pod.Spec.NodeSelector)
	}
}

func TestReadyIsOnlyWhatWasStartedSince(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	status := func(ready bool, started time.Time) corev1.ContainerStatus {
		return corev1.ContainerStatus{Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}}}
	}
	for name, tc := range map[string]struct {
		status corev1.ContainerStatus
		ready  bool
	}{
		"ready":            {status(true, start), true},
		"before the stop":  {status(true, start.Add(-time.Second)), false},
		"not ready":        {status(false, start), false},
		"has ended though": {corev1.ContainerStatus{Ready: true}, false},
	} {
		client := fake.NewClientset(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns-1", Labels: map[string]string{"k8s-app": "kube-dns"}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{tc.status}},
		})
		if err := Ready(context.Background(), client, start); (err == nil) != tc.ready {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
