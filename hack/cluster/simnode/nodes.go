package simnode

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

const (
	// leaseSeconds is how long a node's lease is valid, as with a kubelet.
	leaseSeconds = 40
	// shortLeaseSeconds is how long it is valid if there is a real node too: the control plane then detects the loss of a node within
	// seconds.
	shortLeaseSeconds = 4
	// hostIP is the address of all nodes, where they serve logs and exec at one port.
	hostIP = "127.0.0.1"
)

// capacity is that of each node: enough never to be what a test runs into.
var capacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("64"),
	corev1.ResourceMemory:           resource.MustParse("256Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	corev1.ResourcePods:             resource.MustParse("1100"),
}

// nodeName is the name of the i-th node, from 1.
func nodeName(i int) string { return fmt.Sprintf("simulated-%d", i) }

// taint keeps Pods away that do not ask for simulated nodes.
var taint = corev1.Taint{Key: NodeTypeLabel, Value: NodeType, Effect: corev1.TaintEffectNoSchedule}

// newNode describes a node that is ready, and serves the API of a kubelet at the port.
func newNode(name, version string, port int32) *corev1.Node {
	now := metav1.Now()
	condition := func(conditionType corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: conditionType, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
				NodeTypeLabel:          NodeType,
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: hostIP},
				{Type: corev1.NodeHostName, Address: name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture:            "amd64",
				OperatingSystem:         "linux",
				OSImage:                 "simulated",
				KernelVersion:           "simulated",
				ContainerRuntimeVersion: "simulated://" + version,
				KubeletVersion:          version,
			},
		},
	}
}

// register creates a node, or makes one that is there (from a run before) ready again, and tainted or not.
func register(ctx context.Context, client kubernetes.Interface, node *corev1.Node) (*corev1.Node, error) {
	nodes := client.CoreV1().Nodes()
	created, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		existing, err := nodes.Get(ctx, node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if taints := withTaint(existing.Spec.Taints, len(node.Spec.Taints) > 0); len(taints) != len(existing.Spec.Taints) {
			existing.Spec.Taints = taints
			if existing, err = nodes.Update(ctx, existing, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		existing.Status = node.Status
		created, err = nodes.UpdateStatus(ctx, existing, metav1.UpdateOptions{})
		return err
	})
	return created, err
}

// withTaint returns the taints with ours or without it. Others are the control plane's.
func withTaint(taints []corev1.Taint, wanted bool) []corev1.Taint {
	others := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
	if wanted {
		return append(others, taint)
	}
	return others
}

// removeSurplus removes the simulated nodes of a previous run that had more of them: their leases would not be renewed.
func removeSurplus(ctx context.Context, client kubernetes.Interface, wanted map[string]bool) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: NodeTypeLabel + "=" + NodeType})
	if err != nil {
		return fmt.Errorf("listing simulated nodes: %w", err)
	}
	for _, node := range nodes.Items {
		if wanted[node.Name] {
			continue
		}
		if err := client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing simulated node %s, which is no longer wanted: %w", node.Name, err)
		}
	}
	return nil
}

// renewLease keeps the node's lease, the sign of life that the control plane looks for, until the context ends.
// It is renewed when half of it is over: a kubelet does so four times as often, but then thousands of nodes would be a load.
func renewLease(ctx context.Context, client kubernetes.Interface, name string, uid types.UID, seconds int32) {
	setOwner := func(l *coordinationv1.Lease) error {
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}}
		return nil
	}
	lease.NewController(clock.RealClock{}, client, name, seconds, nil, time.Duration(seconds)*time.Second/2, name, corev1.NamespaceNodeLease, setOwner).Run(ctx)
}

// AllReady reports whether the nodes include n simulated ones on which Pods can be scheduled.
func AllReady(nodes []corev1.Node, n int) bool {
	for _, node := range nodes {
		if node.Labels[NodeTypeLabel] == NodeType && isReady(&node) {
			n--
		}
	}
	return n <= 0
}

// isReady also wants the taint gone that every node has until the control plane has seen that it is ready.
func isReady(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
