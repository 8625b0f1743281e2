package e2e

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"millwright.dev/hack/cluster/patience"
)

// appImage is the image of the folder app. Its name is that of no registry.
const appImage = "millwright.dev/cluster/e2e:1"

// needNode skips the test where there can be no real node, and says why.
func needNode(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane and a real node")
	}
	if os.Getenv("NODE_TESTS") == "" {
		t.Skip("a real node installs packages: make test-node runs this")
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("a real node needs Linux and root")
	}
	if out, err := exec.Command(binary, "node", "prepare").CombinedOutput(); err != nil {
		t.Skipf("%s", out)
	}
	if os.Getenv(binaryEnv) == "" {
		if out, err := exec.Command("../build.sh", "node").CombinedOutput(); err != nil {
			t.Fatalf("building the images of a node: %v\n%s", err, out)
		}
	}
}

// nodeCluster is a running cluster with a real node.
type nodeCluster struct {
	*cluster
	values *strings.Replacer // of the manifests
}

// upWithNode starts a cluster with a real node, and brings the image of the tests to it.
func upWithNode(t *testing.T, path string, args ...string) *nodeCluster {
	t.Helper()
	c := up(t, path, append([]string{"--node", "--port", "0", "--unsafe-no-fsync"}, args...)...)
	if out, err := exec.Command(binary, "image", "load", "--dir", path, appArchive(t)).CombinedOutput(); err != nil {
		t.Fatalf("loading the image of the tests: %v\n%s", err, out)
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("app.e2e.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &nodeCluster{cluster: c, values: strings.NewReplacer(
		"@IMAGE@", appImage,
		"@CERTIFICATE@", base64.StdEncoding.EncodeToString(certificate),
		"@KEY@", base64.StdEncoding.EncodeToString(key),
	)}
}

// appArchive builds the program of the tests and makes an image of it.
func appArchive(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "app"), "./app")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program of the tests: %v\n%s", err, out)
	}
	archive := filepath.Join(dir, "app.tar")
	if out, err := exec.Command(binary, "image", "pack", "--name", appImage, filepath.Join(dir, "app"), archive).CombinedOutput(); err != nil {
		t.Fatalf("packing the program of the tests: %v\n%s", err, out)
	}
	return archive
}

// create creates the objects of a manifest in testdata.
func (c *nodeCluster) create(t *testing.T, manifest string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", manifest))
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, c.values.Replace(string(content)), "create", "-f", "-")
}

// pod returns a field of a Pod in the namespace default, by its JSONPath.
func (c *nodeCluster) pod(t *testing.T, name, path string) string {
	t.Helper()
	return c.kubectl(t, "get", "pod", name, "-o", "jsonpath={"+path+"}")
}

// expectExec checks that a command runs in a Pod.
func (c *nodeCluster) expectExec(t *testing.T) {
	t.Helper()
	if got := c.kubectl(t, "exec", "runs", "--", "/app", "say", "hello"); got != "hello" {
		t.Errorf("exec printed %q", got)
	}
}

// TestARealNode is the life of one cluster with a real node. It is one test because a start takes seconds.
func TestARealNode(t *testing.T) {
	needNode(t)
	before := lookAtMachine(t)
	// Longer than the name of a socket may be.
	path := filepath.Join(t.TempDir(), strings.Repeat("a-long-directory-name/", 6))
	c := upWithNode(t, path, "--simulated-nodes", "1")

	t.Run("nothing of it shows in the mounts and names of network namespaces of the machine", func(t *testing.T) {
		lookAtMachine(t).compare(t, before)
	})
	c.create(t, "app.yaml")
	c.kubectl(t, "rollout", "status", patience.Timeout, "-n", "e2e", "deployment/app")
	t.Run("a restricted Pod reaches the API server, names and Services", func(t *testing.T) { testLook(t, c) })
	t.Run("the API server reaches a webhook in a Pod", func(t *testing.T) { testExtension(t, c) })
	t.Run("containers are restarted, and their logs kept", func(t *testing.T) { testRestarts(t, c) })
	t.Run("Pods do not notice the end of kubelet and containerd", func(t *testing.T) { testKubeletKilled(t, c) })
	t.Run("the loss of the node shows within seconds", func(t *testing.T) { testNodeLoss(t, c) })
	t.Run("with simulated nodes", func(t *testing.T) { testWithSimulatedNodes(t, c) })
	t.Run("a second node leaves nothing when it is killed", func(t *testing.T) { testSecondNode(t, c) })

	space := spaceOf(t, c.cluster)
	if err := syscall.Kill(space.init, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.signal(t, syscall.SIGKILL)
	t.Run("a kill of everything leaves only cgroups", func(t *testing.T) {
		space.expectEmpty(t)
		lookAtMachine(t).compare(t, before)
	})
	c.cluster = up(t, path, "--node", "--port", "0", "--unsafe-no-fsync")
	t.Run("the next start runs the Pods again", func(t *testing.T) {
		patience.Eventually(t, "the container of Pod runs was started once more", func() bool {
			return c.pod(t, "runs", ".status.containerStatuses[0].restartCount") == "2"
		})
		c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/runs")
		c.expectExec(t)
	})
	space = spaceOf(t, c.cluster)
	t.Run("a clean stop leaves nothing", func(t *testing.T) {
		c.signal(t, syscall.SIGTERM)
		if code := c.exitCode(); code != 0 || !calm.MatchString(c.output.String()) {
			t.Errorf("exit code %d; output:\n%s", code, c.output.String())
		}
		space.expectEmpty(t)
		if left := space.cgroups(t); len(left) > 0 {
			t.Errorf("its cgroups are still there: %s", left)
		}
		lookAtMachine(t).compare(t, before)
	})
}

func TestUnsuitableMachineIsReported(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("as another user: only root on Linux can be one")
	}
	dir := filepath.Join(t.TempDir(), "state")
	for name, tc := range map[string]struct {
		change func(*exec.Cmd)
		want   string
	}{
		"not root": {
			func(cmd *exec.Cmd) {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			},
			"this machine cannot have a node: a node needs root",
		},
		"neither programs nor packages": {
			func(cmd *exec.Cmd) { cmd.Env = []string{"PATH=/nonexistent"} },
			"runc (starts containers), nft (makes ClusterIPs work, for kube-proxy)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			version := exec.Command(binary, "version")
			tc.change(version)
			if err := version.Run(); errors.Is(err, fs.ErrPermission) {
				t.Skipf("other users may not run %s", binary)
			}
			cmd := upCommand(dir, "--node", "--port", "0")
			tc.change(cmd)
			fails(t, cmd, tc.want)
			if _, err := os.Stat(dir); err == nil {
				t.Error("its directory was made")
			}
		})
	}
}
