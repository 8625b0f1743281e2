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
)

const crds = "manifests/00-crds"

// asVictim makes the test binary start a cluster, tell where it is, and wait to be killed.
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

func TestANamespaceIsReadyForPodsWhichRunAtOnce(t *testing.T) {
	t.Parallel()
	cluster := Shared(t)
	namespace := cluster.Namespace(t)
	if want := "testanamespaceisreadyforpodswhichrunatonce-"; !strings.HasPrefix(namespace, want) {
		t.Errorf("the namespace is %q, want it to begin with %q", namespace, want)
	}
	if other := cluster.Namespace(t); other == namespace {
		t.Errorf("a second namespace has the same name, %q", other)
	}

	pods := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().Pods(namespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=60s", "--namespace="+namespace, "pod/web")
}

func TestTheConfigHasNoLimitAndIsTheCallersToChange(t *testing.T) {
	t.Parallel()
	config := Shared(t).Config()
	if config.QPS != -1 {
		t.Errorf("QPS is %v, want none", config.QPS)
	}
	config.Host = "elsewhere"
	if Shared(t).Config().Host == "elsewhere" {
		t.Error("a change to one configuration shows in the next")
	}
}

func TestTheCRDsAreInstalledAndExplained(t *testing.T) {
	t.Parallel()
	cluster := Shared(t)
	cluster.InstallCRDs(t, crds) // once more, as for an upgrade

	// The API server publishes the texts of a new kind a moment after the kind itself.
	var explained string
	for begin := time.Now(); explained == ""; time.Sleep(100 * time.Millisecond) {
		output, err := cluster.kubectl("explain", "immortalcontainer.spec")
		if err == nil {
			explained = output
		} else if time.Since(begin) > 3*time.Minute {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"ImmortalContainer", "FIELDS:", "image\t<string>", "acontainer"} {
		if !strings.Contains(explained, want) {
			t.Errorf("kubectl explain immortalcontainer.spec does not say %q:\n%s", want, explained)
		}
	}
}

// That is why every instruction says --server-side.
func TestTheCRDsAreTooLargeForAClientSideApply(t *testing.T) {
	t.Parallel()
	cluster := Start(t)
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if message := cluster.KubectlFails(t, "apply", "-f", filepath.Join(root, crds)); !strings.Contains(message, "Too long") {
		t.Errorf("the message is %q, want it to say that an annotation is too long", message)
	}
}

func TestEverySampleIsAcceptedByTheAPIServer(t *testing.T) {
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
			continue // an API server of its own accepts it: pkg/testing/integration has one
		}
		args := []string{"apply", "--dry-run=server", "-f", sample}
		if namespace, ok := ownNamespace(string(content)); ok {
			cluster.Kubectl(t, "create", "namespace", namespace) // a dry run makes none for what comes after it
		} else {
			args = append(args, "--namespace="+cluster.Namespace(t))
		}
		if output := cluster.Kubectl(t, args...); !strings.Contains(output, "(server dry run)") {
			t.Errorf("of %s kubectl printed:\n%s", sample, output)
		}
	}
}

// ownNamespace is the name of the Namespace that a manifest has, if it has one.
func ownNamespace(manifest string) (name string, ok bool) {
	_, after, ok := strings.Cut(manifest, "kind: Namespace\nmetadata:\n  name: ")
	name, _, _ = strings.Cut(after, "\n")
	return name, ok
}

func TestTwoClustersRunSideBySideAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	var dirs []string
	t.Run("side by side", func(t *testing.T) {
		one, two := Start(t), Start(t)
		dirs = []string{one.process.dir, two.process.dir}
		if one.Config().Host == two.Config().Host {
			t.Fatalf("both are at %s", one.Config().Host)
		}
		namespace := one.Namespace(t)
		two.KubectlFails(t, "get", "namespace", namespace)
	})
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the files of a stopped cluster are still in %s (%v)", dir, err)
		}
	}
}

func TestAKilledTestBinaryLeavesNoClusterBehind(t *testing.T) {
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
		t.Fatalf("there is no process %d", pid)
	}

	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	for begin := time.Now(); runs(pid); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > stopTimeout {
			t.Fatalf("the cluster, process %d, still runs %v after the test binary was killed", pid, stopTimeout)
		}
	}
}

func TestAnEndOfTheClusterBeforeItsTimeIsAnErrorThatTellsWhatItPrinted(t *testing.T) {
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
		t.Errorf("stop returned %v, want an error with the cluster's output", err)
	}
}

// runs tells whether a process runs. One that has ended but whose parent has not asked for its status does not.
func runs(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return !bytes.Contains(stat, []byte(") Z "))
	}
	return syscall.Kill(pid, 0) == nil
}
