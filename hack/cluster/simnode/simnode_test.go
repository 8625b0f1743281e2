package simnode

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"millwright.dev/hack/cluster/patience"
)

// TestRun is about what runs at the same time; what happens to Pods is decide's, and what the API server makes of it e2e's.
func TestRun(t *testing.T) {
	serving, _ := newServing(t)
	client := fake.NewClientset(
		newNode(nodeName(1), "v1.0.0", 1),
		newNode(nodeName(9), "v1.0.0", 1),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}},
		boundPod("before", nodeName(2)),
		boundPod("elsewhere", "real"),
	)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Config{Client: client, Nodes: 2, Version: "v2.0.0", Serving: serving}) }()

	pods := client.CoreV1().Pods("default")
	phase := func(name string) corev1.PodPhase {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return pod.Status.Phase
	}
	patience.Eventually(t, "a Pod from before runs", func() bool { return phase("before") == corev1.PodRunning })
	if _, err := pods.Create(t.Context(), boundPod("new", nodeName(1)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patience.Eventually(t, "a new Pod runs", func() bool { return phase("new") == corev1.PodRunning })
	if got := phase("elsewhere"); got != "" {
		t.Errorf("a Pod on a node of another owner has phase %s", got)
	}

	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !AllReady(nodes.Items, 2) || AllReady(nodes.Items, 3) {
		t.Errorf("want two simulated nodes to be ready, have %d nodes", len(nodes.Items))
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), nodeName(9), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a simulated node that is no longer wanted is still there: %v", err)
	}
	patience.Eventually(t, "the nodes have leases", func() bool {
		leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(leases.Items) == 2
	})

	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience.Limit):
		t.Error("Run did not end with its context")
	}
}

func TestANodeIsReadyWhenItsTaintIsGone(t *testing.T) {
	node := *newNode(nodeName(1), "v1.0.0", 1)
	if !AllReady([]corev1.Node{node}, 1) {
		t.Error("a new node is not ready")
	}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	if AllReady([]corev1.Node{node}, 1) {
		t.Error("a node with the taint not-ready is ready")
	}
}

func TestTaintOnlyWithRealNode(t *testing.T) {
	serving, _ := newServing(t)
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	existing := newNode(nodeName(1), "v1.0.0", 1)
	existing.Spec.Taints = []corev1.Taint{cordoned}
	client := fake.NewClientset(existing)
	for _, tc := range []struct {
		realNode bool
		want     []corev1.Taint // of a node of a previous run
	}{
		{true, []corev1.Taint{cordoned, taint}},
		{false, []corev1.Taint{cordoned}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Run(ctx, Config{Client: client, Nodes: 2, Version: "v2.0.0", BesideRealNode: tc.realNode, Serving: serving})
		}()
		taints := func(i int) []corev1.Taint {
			node, err := client.CoreV1().Nodes().Get(t.Context(), nodeName(i), metav1.GetOptions{})
			if err != nil {
				return nil
			}
			return node.Spec.Taints
		}
		patience.Eventually(t, "node simulated-1 has the taints", func() bool { return cmp.Equal(taints(1), tc.want) })
		patience.Eventually(t, "node simulated-2 has a taint or not", func() bool { return (len(taints(2)) == 1) == tc.realNode })
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func boundPod(name, node string) *corev1.Pod {
	pod := newPod()
	pod.Name, pod.UID, pod.Spec.NodeName = name, types.UID(name), node
	pod.Status.Phase = ""
	return pod
}
