package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millwright.dev/hack/cluster/patience"
)

func testLook(t *testing.T, c *nodeCluster) {
	c.create(t, "look.yaml")
	c.kubectl(t, "wait", "-n", "e2e", "--for=jsonpath={.status.phase}=Succeeded", patience.Timeout, "pod/look")
	log := c.kubectl(t, "logs", "-n", "e2e", "look")
	for _, want := range []string{
		"API server https://10.96.0.1:443, Pods listed: true",
		"app is its ClusterIP: true",
		"app.e2e is its ClusterIP: true",
		"app.e2e.svc.cluster.local is its ClusterIP: true",
		"by ClusterIP: hello from app-",
		"by name: hello from app-",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the Pod does not say %q:\n%s", want, log)
		}
	}
}

// testExtension checks how the API server reaches Pods through Services: as a webhook, and as an aggregated API server.
func testExtension(t *testing.T, c *nodeCluster) {
	c.create(t, "extension.yaml")
	t.Cleanup(func() {
		c.kubectl(t, "delete", "validatingwebhookconfigurations/e2e.millwright.dev", "apiservices/v1.e2e.millwright.dev")
	})
	c.kubectl(t, "wait", "--for=condition=Available", patience.Timeout, "apiservice/v1.e2e.millwright.dev")
	if got := c.kubectl(t, "get", "greetings.e2e.millwright.dev", "-o", "name"); got != "greeting.e2e.millwright.dev/hello-admin" {
		t.Errorf("the aggregated API server says %q", got)
	}

	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: e2e, name: refused, labels: {denied: \"\"}}\n"
	file := filepath.Join(t.TempDir(), "refused.yaml")
	if err := os.WriteFile(file, []byte(configMap), 0o600); err != nil {
		t.Fatal(err)
	}
	// The API server learns of a new webhook a moment later.
	patience.Eventually(t, "the webhook refuses the object", func() bool {
		out, err := exec.Command(binary, "kubectl", "--kubeconfig", c.dir.AdminKubeconfig(), "create", "--dry-run=server", "-f", file).CombinedOutput()
		return err != nil && strings.Contains(string(out), "it has the label denied")
	})
	c.kubectl(t, "create", "configmap", "-n", "e2e", "accepted")
}

func testRestarts(t *testing.T, c *nodeCluster) {
	c.create(t, "pods.yaml")
	c.kubectl(t, "wait", "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=CrashLoopBackOff", patience.Timeout, "pod/crashes")
	// While the kubelet replaces the container, the log of the one before is not there for a moment.
	patience.Eventually(t, "the log of the container before is there", func() bool {
		return c.kubectl(t, "logs", "--previous", "crashes") == "these are my last words"
	})
	if code := c.pod(t, "crashes", ".status.containerStatuses[0].lastState.terminated.exitCode"); code != "1" {
		t.Errorf("the container before has exit code %q", code)
	}

	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/runs")
	c.expectExec(t)
	kill(t, processesOf(t, spaceOf(t, c.cluster), "/app sleep"))
	patience.Eventually(t, "the killed container was started again", func() bool {
		return c.pod(t, "runs", ".status.containerStatuses[0].restartCount") == "1"
	})
	if code := c.pod(t, "runs", ".status.containerStatuses[0].lastState.terminated.exitCode"); code != "137" {
		t.Errorf("the killed container has exit code %q", code)
	}
	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/runs")
}

func testKubeletKilled(t *testing.T, c *nodeCluster) {
	containers := func() string {
		return c.kubectl(t, "get", "pods", "-A", "-l", "app=app", "-o", "jsonpath={.items[*].status.containerStatuses[*]['containerID','restartCount']}")
	}
	before := containers()
	for _, name := range []string{"kubelet kubelet ", "containerd "} {
		space := spaceOf(t, c.cluster)
		var killed []int
		patience.Eventually(t, "there is one process of "+name, func() bool { // a child that has yet to call exec is another
			killed = processesOf(t, space, name)
			return len(killed) == 1
		})
		kill(t, killed)
		patience.Eventually(t, name+"runs again", func() bool {
			now := processesOf(t, space, name)
			return len(now) == 1 && now[0] != killed[0]
		})
		// It is back when it does something.
		patience.Eventually(t, "exec works again", func() bool {
			out, err := exec.Command(binary, "kubectl", "--kubeconfig", c.dir.AdminKubeconfig(), "exec", "runs", "--", "/app", "say", "hello").Output()
			return err == nil && string(out) == "hello\n"
		})
	}
	if after := containers(); before == "" || after != before {
		t.Errorf("containers and their restarts are %s, before %s", after, before)
	}
}

func testNodeLoss(t *testing.T, c *nodeCluster) {
	stopped := processesOf(t, spaceOf(t, c.cluster), "kubelet kubelet ")
	signal := func(s syscall.Signal) {
		for _, pid := range stopped {
			if err := syscall.Kill(pid, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	begin := time.Now()
	defer signal(syscall.SIGCONT)
	c.kubectl(t, "wait", "--for=condition=Ready=Unknown", patience.Timeout, "node/node-1")
	t.Logf("after %v", time.Since(begin).Round(time.Second/10))
	signal(syscall.SIGCONT)
	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "node/node-1")
	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/runs")
}

// testWithSimulatedNodes checks that only a Pod that tolerates the taint is scheduled on a simulated node, and that such a node stays ready.
func testWithSimulatedNodes(t *testing.T, c *nodeCluster) {
	if node := c.pod(t, "runs", ".spec.nodeName"); node != "node-1" {
		t.Errorf("Pod runs is on node %q", node)
	}
	c.kubectl(t, "run", "simulated", "--image=none", "--overrides",
		`{"spec":{"nodeSelector":{"type":"simulated"},"tolerations":[{"key":"type","value":"simulated"}]}}`)
	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/simulated")
	// It has been so since it was made, and did not lose its lease in between.
	const ready = ".status.conditions[?(@.type==\"Ready\")]"
	condition := c.kubectl(t, "get", "node", "simulated-1", "-o", "jsonpath={"+ready+".status} {"+ready+".lastTransitionTime} {.metadata.creationTimestamp}")
	if fields := strings.Fields(condition); len(fields) != 3 || fields[0] != "True" || fields[1] > fields[2] {
		t.Errorf("node simulated-1: ready, since, made: %s", condition)
	}
}

// testSecondNode starts a second cluster with a node of the same name and addresses, and kills its control plane. Its node has
// to notice.
func testSecondNode(t *testing.T, c *nodeCluster) {
	second := up(t, t.TempDir(), "--node", "--port", "0", "--unsafe-no-fsync")
	if got := second.kubectl(t, "get", "pods", "-A", "-o", "name"); strings.Contains(got, "app") {
		t.Errorf("it has the Pods of the other cluster: %s", got)
	}
	space := spaceOf(t, second)
	if len(space.cgroups(t)) == 0 {
		t.Error("it has no cgroups")
	}
	second.signal(t, syscall.SIGKILL)
	space.expectEmpty(t)
	if left := space.cgroups(t); len(left) > 0 {
		t.Errorf("its cgroups are still there: %s", left)
	}
	c.expectExec(t)
}
