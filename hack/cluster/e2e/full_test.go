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

// smallDisk is a file system of that size, as root on Linux.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	path := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", path).CombinedOutput(); err != nil {
		t.Skipf("this user cannot mount a small file system: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, 0) })
	return path
}

func TestTooSmallADiskIsReportedInOneLine(t *testing.T) {
	disk := smallDisk(t, "40m")
	out, err := upCommand(filepath.Join(disk, "state")).CombinedOutput()
	want := "cluster: no space left on device: " + disk + " has 40 MiB left, and a control plane needs 256 MiB"
	if err == nil || !strings.HasPrefix(string(out), want) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("got %v, want one line %q:\n%s", err, want, out)
	}
}

func TestADiskThatFillsUpIsReportedWithoutAStack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	disk := smallDisk(t, "320m")
	c := up(t, filepath.Join(disk, "state"), "--port", "0", "--unsafe-no-fsync")
	ballast := filepath.Join(disk, "ballast")
	file, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 1<<16); err == nil; {
		_, err = file.Write(block)
	}
	_ = file.Close()
	// etcd has reserved room for its log; when that is used up it asks for more.
	content := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(content, make([]byte, 900_000), 0o600); err != nil {
		t.Fatal(err)
	}
	patience.Eventually(t, "the control plane gives up", func() bool {
		_ = exec.Command(binary, "kubectl", "--kubeconfig", c.dir.AdminKubeconfig(), "--request-timeout=10s", "create", "configmap",
			"--from-file", content, time.Now().Format("x150405.000000")).Run()
		select {
		case <-c.exited:
			return true
		default:
			return false
		}
	})
	output := c.output.String()
	if _, message, _ := strings.Cut(output, "export KUBECONFIG"); c.exitCode() != 1 || trace.MatchString(output) || !strings.Contains(message, "cluster: no space left on device: "+c.dir.Path()) {
		t.Errorf("exit code %d:\n%s", c.exitCode(), output)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	again := up(t, c.dir.Path(), "--port", "0", "--unsafe-no-fsync")
	again.kubectl(t, "get", "configmaps")
	again.signal(t, syscall.SIGTERM)
}
