package e2e

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"millwright.dev/hack/cluster/patience"
)

// calm is all that a cluster that has nothing special to say prints from start to stop.
var calm = regexp.MustCompile(`^Starting Kubernetes v1\.[0-9.]+ in .*
Ready after [0-9.]+ s at https://127\.0\.0\.1:[0-9]+\. .*
  export KUBECONFIG=".*/admin\.kubeconfig"
Stopped after [0-9.]+ s\. .*
$`)

// TestUp is the life of one cluster, with a second cluster next to it. It is one test because each start takes seconds.
func TestUp(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	// Longer than the name of a socket may be.
	path := filepath.Join(t.TempDir(), strings.Repeat("a-long-directory-name/", 6))
	auditLog := filepath.Join(t.TempDir(), "audit.log")
	first := up(t, path, "--port", "0", "--simulated-nodes", "3", "--audit-log", auditLog)

	t.Run("the ready file has the URL of the kubeconfig", func(t *testing.T) {
		server := first.kubectl(t, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
		if first.url != server {
			t.Errorf("ready file: %s, kubeconfig: %s", first.url, server)
		}
	})
	t.Run("it listens on loopback only", func(t *testing.T) { testListeners(t, first) })
	t.Run("a directory in use is refused", func(t *testing.T) { testDirInUse(t, first) })
	t.Run("the audit log has what the authorizer refused", func(t *testing.T) { testAuditLog(t, first, auditLog) })
	t.Run("Pods", func(t *testing.T) { testPods(t, first) })
	t.Run("Output", func(t *testing.T) { testOutput(t, first) })
	t.Run("a second cluster ends with its parent", func(t *testing.T) { testSecondCluster(t, first) })

	first.kubectl(t, "create", "configmap", "kept", "--from-literal=run=first")
	first.signal(t, syscall.SIGKILL)
	t.Run("wait says that a killed cluster does not run", func(t *testing.T) {
		out, err := exec.Command(binary, "wait", "--dir", path, patience.Timeout).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "no cluster runs in "+first.dir.Path()) {
			t.Errorf("got %v:\n%s", err, out)
		}
	})

	second := up(t, path, "--port", "0", "--simulated-nodes", "1")
	t.Run("after a kill the state is still there", func(t *testing.T) {
		if got := second.kubectl(t, "get", "configmap", "kept", "-o", "jsonpath={.data.run}"); got != "first" {
			t.Errorf("got %q", got)
		}
		second.kubectl(t, "wait", "--for=jsonpath={.status.phase}=Running", patience.Timeout, "pod/plain")
	})
	t.Run("nodes that are no longer wanted are removed", func(t *testing.T) {
		patience.Eventually(t, "only node simulated-1 is left", func() bool {
			return second.kubectl(t, "get", "nodes", "-o", "name") == "node/simulated-1"
		})
	})
	t.Run("it stops cleanly", func(t *testing.T) {
		second.signal(t, syscall.SIGTERM)
		if code := second.exitCode(); code != 0 {
			t.Errorf("exit code %d; output:\n%s", code, second.output.String())
		}
		if _, ready := second.dir.Ready(); ready {
			t.Error("the ready file is still there")
		}
		if !calm.MatchString(second.output.String()) {
			t.Errorf("more than a few lines for people, or something was cut off:\n%s", second.output.String())
		}
	})
}

func testDirInUse(t *testing.T, c *cluster) {
	out, err := upCommand(c.dir.Path()).CombinedOutput()
	if want := fmt.Sprintf("is in use by process %d", c.pid()); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("got %v:\n%s", err, out)
	}
	if lines := strings.Count(string(out), "\n"); lines != 1 {
		t.Errorf("want one line, got %d:\n%s", lines, out)
	}
	if _, ready := c.dir.Ready(); !ready {
		t.Error("the refused process removed the ready file")
	}
}

// testSecondCluster starts a cluster on the port of another one from a process that is then killed.
func testSecondCluster(t *testing.T, c *cluster) {
	server, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	up := upCommand(path, "--port", server.Port(), "--stop-with-stdin", "--unsafe-no-fsync")
	parent := exec.Command(os.Args[0], up.Args...)
	parent.Env = append(os.Environ(), parentEnv+"=1")
	if _, err := parent.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	second := waitFor(t, start(t, parent), path)
	if second.url == c.url || !strings.Contains(second.output.String(), "Port "+server.Port()+" is taken") {
		t.Errorf("both at %s; output:\n%s", c.url, second.output.String())
	}
	if got := second.kubectl(t, "get", "nodes", "-o", "name"); got != "" {
		t.Errorf("it has the nodes of the other cluster: %s", got)
	}

	// Only the parent: what it has started has to notice.
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	patience.Eventually(t, "no process runs the cluster", func() bool {
		pid, err := second.dir.Holder()
		return err == nil && pid == 0
	})
	if _, ready := second.dir.Ready(); ready {
		t.Error("the ready file is still there")
	}
	c.kubectl(t, "get", "--raw", "/readyz")
}

// testListeners looks at all sockets of the process.
func testListeners(t *testing.T, c *cluster) {
	fds := fmt.Sprintf("/proc/%d/fd", c.pid())
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Skipf("cannot list the open files of a process on this system: %v", err)
	}
	sockets := map[string]bool{}
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(fds, entry.Name())); err == nil {
			sockets[target] = true
		}
	}
	listening := 0
	for _, table := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", c.pid(), table))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(content), "\n")[1:] {
			// sl, local address, remote address, state (0A is LISTEN), five more, inode
			columns := strings.Fields(line)
			if len(columns) < 10 || columns[3] != "0A" || !sockets["socket:["+columns[9]+"]"] {
				continue
			}
			listening++
			if address := columns[1]; !strings.HasPrefix(address, "0100007F:") {
				t.Errorf("listens on %s (%s)", address, table)
			}
		}
	}
	if listening != 2 {
		t.Errorf("%d listening TCP sockets, want those of the API server and of the simulated nodes only", listening)
	}
}

func TestUpErrors(t *testing.T) {
	t.Run("a component that cannot start is named", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "etcd"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "etcd", "data"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, upCommand(dir, "--port", "0"), "starting etcd")
	})
	t.Run("a port that cannot be", func(t *testing.T) {
		fails(t, upCommand(t.TempDir(), "--port", "123456"), net.JoinHostPort("127.0.0.1", "123456"))
	})
	t.Run("no directory", func(t *testing.T) {
		fails(t, exec.Command(binary, "up"), `required flag(s) "dir" not set`)
	})
}

func fails(t *testing.T, cmd *exec.Cmd, want string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), want) {
		t.Errorf("got %v, want exit code 1 and a message with %q:\n%s", err, want, out)
	}
}
