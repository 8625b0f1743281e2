// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/testing/patience"
)

const crds = "manifests/00-crds"

// asVictim is the environment variable that makes the test binary start a cluster, print its process and folder, and wait to be killed.
const asVictim = "TEST_AS_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(asVictim) != "" {
		process, err := startProcess(false, false)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(process.command.Process.Pid, process.dir)
		select {}
	}
	Main(m, WithCRDs(crds))
}

func TestNamespaceIsReadyForPods(t *testing.T) {
	t.Parallel()
	cluster := Shared(t)
	namespace := cluster.Namespace(t)
	if want := "testnamespaceisreadyforpods-"; !strings.HasPrefix(namespace, want) {
		t.Errorf("got the namespace %q, want the prefix %q", namespace, want)
	}
	if other := cluster.Namespace(t); other == namespace {
		t.Errorf("got the name %q twice, want two names", other)
	}

	pods := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().Pods(namespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "--namespace="+namespace, "pod/web")
}

func TestConfigIsACopy(t *testing.T) {
	t.Parallel()
	config := Shared(t).Config()
	if config.QPS != -1 {
		t.Errorf("got QPS %v, want no limit", config.QPS)
	}
	config.Host = "elsewhere"
	if Shared(t).Config().Host == "elsewhere" {
		t.Error("got a configuration that another caller has changed, want a copy")
	}
}

func TestCRDsAreExplained(t *testing.T) {
	t.Parallel()
	cluster := Shared(t)
	cluster.InstallCRDs(t, crds) // once more, as for an upgrade

	// The API server publishes the descriptions of a new kind after the kind itself.
	var explained string
	for begin := time.Now(); explained == ""; time.Sleep(100 * time.Millisecond) {
		output, err := cluster.kubectl("explain", "immortalcontainer.spec")
		if err == nil {
			explained = output
		} else if time.Since(begin) > patience.Limit {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"ImmortalContainer", "FIELDS:", "image\t<string>", "acontainer"} {
		if !strings.Contains(explained, want) {
			t.Errorf("kubectl explain immortalcontainer.spec does not print %q:\n%s", want, explained)
		}
	}
}

// This is why every instruction has --server-side.
func TestCRDsAreTooLargeForClientSideApply(t *testing.T) {
	t.Parallel()
	cluster := Start(t)
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if message := cluster.KubectlFails(t, "apply", "-f", filepath.Join(root, crds)); !strings.Contains(message, "Too long") {
		t.Errorf("got the message %q, want that an annotation is too long", message)
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	cluster := Shared(t)
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	samples, err := filepath.Glob(filepath.Join(root, "manifests", "samples", "*", "*.yaml"))
	if err != nil || len(samples) == 0 {
		t.Fatalf("there are no samples: %v", err)
	}
	for _, sample := range samples {
		content, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "apiVersion: farm.example.com/") {
			continue // the tests of the aggregated API server in pkg/testing/integration check these
		}
		args := []string{"apply", "--dry-run=server", "-f", sample}
		if namespace, ok := ownNamespace(string(content)); ok {
			cluster.Kubectl(t, "create", "namespace", namespace) // a dry run does not create it for the objects after it
		} else {
			args = append(args, "--namespace="+cluster.Namespace(t))
		}
		if output := cluster.Kubectl(t, args...); !strings.Contains(output, "(server dry run)") {
			t.Errorf("got for %s:\n%s", sample, output)
		}
	}
}

// ownNamespace returns the name of the Namespace in a manifest, if it has one.
func ownNamespace(manifest string) (name string, ok bool) {
	_, after, ok := strings.Cut(manifest, "kind: Namespace\nmetadata:\n  name: ")
	name, _, _ = strings.Cut(after, "\n")
	return name, ok
}

func TestTwoClusters(t *testing.T) {
	t.Parallel()
	var dirs []string
	t.Run("clusters", func(t *testing.T) {
		one, two := Start(t), Start(t)
		dirs = []string{one.process.dir, two.process.dir}
		if one.Config().Host == two.Config().Host {
			t.Fatalf("got %s twice, want two addresses", one.Config().Host)
		}
		namespace := one.Namespace(t)
		two.KubectlFails(t, "get", "namespace", namespace)
	})
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("got files of a stopped cluster in %s, want none (%v)", dir, err)
		}
	}
}

func TestKilledTestBinaryStopsCluster(t *testing.T) {
	t.Parallel()
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), asVictim+"=1")
	victim.Stderr = os.Stderr
	stdout, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	if _, err := fmt.Fscanln(stdout, &pid, &dir); err != nil {
		t.Fatalf("the other process did not start a cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if !runs(pid) {
		t.Fatalf("process %d does not run", pid)
	}

	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	for begin := time.Now(); runs(pid); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > stopTimeout {
			t.Fatalf("the cluster's process %d still runs %v after the test binary was killed", pid, stopTimeout)
		}
	}
}

func TestClusterEndsEarly(t *testing.T) {
	t.Parallel()
	process, err := startProcess(false, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-process.ended
	if err := process.stop(); err == nil || !strings.Contains(err.Error(), "Starting Kubernetes") {
		t.Errorf("got %v from stop, want an error with the cluster's output", err)
	}
}

// runs reports whether a process runs. A zombie does not.
func runs(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return !bytes.Contains(stat, []byte(") Z "))
	}
	return syscall.Kill(pid, 0) == nil
}
