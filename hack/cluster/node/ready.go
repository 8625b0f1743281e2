package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// IsReady reports whether Pods can be scheduled on the node, and whether the status was written since the start: before, it is the
// status from before the cluster was stopped.
func IsReady(node *corev1.Node, since time.Time) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && !condition.LastHeartbeatTime.Time.Before(since)
		}
	}
	return false
}
