package e2e

import (
	"testing"
	"time"

	"millwright.dev/hack/cluster/patience"
)

const pods = `
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  containers: [{name: main, image: example.com/image}]
---
apiVersion: v1
kind: Pod
metadata:
  name: fails
  annotations: {simulated.millwright.dev/exit-code: "3", simulated.millwright.dev/run-seconds: "0.2"}
spec:
  restartPolicy: Never
  containers: [{name: main, image: example.com/image}]
---
apiVersion: v1
kind: Pod
metadata:
  name: crashes
  annotations: {simulated.millwright.dev/exit-code: "1"}
spec:
  containers: [{name: main, image: example.com/image}]
---
apiVersion: v1
kind: Pod
metadata:
  name: patched
  annotations: {simulated.millwright.dev/termination-seconds: "2"}
spec:
  containers: [{name: main, image: example.com/image}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  completions: 3
  parallelism: 3
  template:
    metadata:
      annotations: {simulated.millwright.dev/exit-code: "0"}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: example.com/image}]
`

// testPods checks what a user sees of Pods on simulated nodes, with the real scheduler and controllers around them.
func testPods(t *testing.T, c *cluster) {
	c.apply(t, pods, "create", "-f", "-")
	status := func(pod, path string) string {
		t.Helper()
		return c.kubectl(t, "get", "pod", pod, "-o", "jsonpath={.status."+path+"}")
	}

	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/plain")
	if phase, ip := status("plain", "phase"), status("plain", "podIP"); phase != "Running" || ip == "" {
		t.Errorf("pod plain: phase %s, address %q", phase, ip)
	}
	c.kubectl(t, "wait", "--for=jsonpath={.status.phase}=Failed", patience.Timeout, "pod/fails")
	if code := status("fails", "containerStatuses[0].state.terminated.exitCode"); code != "3" {
		t.Errorf("pod fails: exit code %q", code)
	}
	c.kubectl(t, "wait", "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=CrashLoopBackOff", patience.Timeout, "pod/crashes")
	if restarts := status("crashes", "containerStatuses[0].restartCount"); restarts == "" || restarts == "0" { // it may have crashed again
		t.Errorf("pod crashes: %s restarts", restarts)
	}
	c.kubectl(t, "wait", "--for=condition=Complete", patience.Timeout, "job/job")

	// A Pod that nothing happens to is not written to.
	version := func() string {
		return c.kubectl(t, "get", "pod", "plain", "-o", "jsonpath={.metadata.resourceVersion}")
	}
	before := version()

	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/patched")
	c.kubectl(t, "patch", "pod", "patched", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Succeeded"}}`)
	time.Sleep(500 * time.Millisecond)
	if phase := status("patched", "phase"); phase != "Succeeded" {
		t.Errorf("pod patched: phase Succeeded became %s", phase)
	}
	c.kubectl(t, "patch", "pod", "patched", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Running"}}`)
	deleted := time.Now()
	c.kubectl(t, "delete", "pod", "patched", "--wait", patience.Timeout)
	if took := time.Since(deleted); took < 2*time.Second {
		t.Errorf("pod patched was gone after %v, although its termination takes two seconds", took)
	}
	c.kubectl(t, "delete", "pod", "fails", "crashes", "--wait", patience.Timeout)

	if after := version(); after != before {
		t.Errorf("pod plain was written to: resource version %s, before %s", after, before)
	}
}
