// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/phase"
)

// Of a large Pod little is in memory, while it runs and after its end.
func TestLargePods(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		large := strings.Repeat("x", 500_000)
		p, call := c.process(), newPodTestCall(t, "task", map[string]any{"image": "tools", "command": []any{"sh", "-c", large}})
		call.begin(p)
		intent, err := ReadIntent(call.Call)
		if err != nil {
			t.Fatal(err)
		}
		little := func(when string, pod *corev1.Pod) {
			t.Helper()
			text, err := json.Marshal(pod)
			if err != nil || pod == nil || len(text) > 4<<10 {
				t.Errorf("%s: %d bytes are held, error %v", when, len(text), err)
			}
		}
		c.update(func(pod *corev1.Pod) {
			pod.Labels["large"], pod.Annotations["large"] = large, large
			podRunning(MainContainer)(pod)
		})
		podWantState(t, "while it runs", call.poll(p), phase.Running)
		pod, _ := p.watches.get(intent.Namespace, intent.Pod)
		little("while it runs", pod)
		c.update(podExited(0))
		podWantState(t, "the end", call.finish(p), phase.Succeeded)
		little("after its end", p.endedPod(p.run(call.ID, intent.UID)))
	})
}
