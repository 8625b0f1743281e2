// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

// systemNamespace is the namespace of Millwright itself.
const systemNamespace = "millwright-system"

// The Deployments of Millwright. Their Leases have the same names.
const (
	core    = "millwright-core"
	engine  = "millwright-engine"
	actions = "millwright-actions"
)

// suite is what all parts share: one cluster, and clients with full rights.
type suite struct {
	*testcluster.Cluster
	client versioned.Interface
	kube   kubernetes.Interface
}

func newSuite(t *testing.T, cluster *testcluster.Cluster) *suite {
	t.Helper()
	client, err := versioned.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &suite{cluster, client, kube}
}

// apply applies a manifest after replacing the names by the values.
func (s *suite) apply(t *testing.T, manifest string, namesAndValues ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(namesAndValues...).Replace(manifest)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Kubectl(t, "apply", "-f", file)
}

// become waits with kubectl until a condition of an object is true.
func (s *suite) become(t *testing.T, namespace, object, condition string) {
	t.Helper()
	s.Kubectl(t, "wait", "-n", namespace, "--for=condition="+condition, patience.Timeout, object)
}

// read returns a field of an object, by its JSONPath.
func (s *suite) read(t *testing.T, namespace, object, path string) string {
	t.Helper()
	return s.Kubectl(t, "get", "-n", namespace, object, "-o", "jsonpath={"+path+"}")
}

// podUID returns the UID of a Pod, or "" if there is none of the name.
func (s *suite) podUID(t *testing.T, namespace, pod string) string {
	t.Helper()
	return s.Kubectl(t, "get", "pod", "-n", namespace, pod, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
}

// deploy runs the script of make deploy and make undeploy against the cluster, as for one that another user runs.
func (s *suite) deploy(t *testing.T, what, image string, variables ...string) string {
	t.Helper()
	output, err := s.tryToDeploy(t, what, image, variables...)
	if err != nil {
		t.Fatalf("hack/deploy.sh %s: %v\n%s", what, err, output)
	}
	return output
}

// tryToDeploy is deploy for a run that may fail.
func (s *suite) tryToDeploy(t *testing.T, what, image string, variables ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience.Limit)
	defer cancel()
	command := exec.CommandContext(ctx, "hack/deploy.sh", what)
	command.Dir = filepath.Join("..", "..", "..")
	command.Env = append(os.Environ(), "CLUSTER=current", "KUBECONFIG="+s.Kubeconfig(), "IMG="+image, "MILLWRIGHT_LOCAL_DIR="+t.TempDir())
	command.Env = append(command.Env, variables...)
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	return string(output), err
}

// get requests a URL from a Pod with that ServiceAccount, and returns the status code and the body of the answer.
func (s *suite) get(t *testing.T, namespace, serviceAccount string, args ...string) (code, body string) {
	t.Helper()
	const name = "asks"
	s.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  restartPolicy: OnFailure
  serviceAccountName: ACCOUNT
  terminationGracePeriodSeconds: 0
  containers:
  - {name: asks, image: "IMAGE", command: [/app, get, ARGS]}
`, "NAMESPACE", namespace, "NAME", name, "ACCOUNT", serviceAccount, "IMAGE", app1, "ARGS", strings.Join(args, ", "))
	s.Kubectl(t, "wait", "-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", patience.Timeout, "pod/"+name)
	code, body, _ = strings.Cut(s.Kubectl(t, "logs", "-n", namespace, name), "\n")
	s.Kubectl(t, "delete", "pod", "-n", namespace, name, patience.Timeout)
	return code, body
}

// eventually waits until the condition holds. It fails the test with the name of the condition.
func eventually(t *testing.T, what string, timeout time.Duration, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, timeout, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("not within %v: %s", timeout, what)
	}
}

// contains checks that the output of a command has all of the strings.
func contains(t *testing.T, command, output string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(output, want) {
			t.Errorf("%s does not print %q:\n%s", command, want, output)
		}
	}
}

// leader returns the name of the Deployment's Pod that holds the Lease, or "".
func (s *suite) leader(t *testing.T, deployment string) string {
	t.Helper()
	lease, err := s.kube.CoordinationV1().Leases(systemNamespace).Get(t.Context(), deployment, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod
}

// awaitOtherLeader waits until a replica leads that is not the Pod, which was deleted. That may be later than the end of the work that followed: the
// kubelet ends the process after the deletion, and until then it leads.
func (s *suite) awaitOtherLeader(t *testing.T, deployment, deleted string) {
	t.Helper()
	eventually(t, "another replica leads than "+deleted, patience.Limit, func() bool {
		now := s.leader(t, deployment)
		return now != "" && now != deleted
	})
}

// processes returns the ids of the app's processes in the Pod. The only real node is this machine.
func processes(t *testing.T, pod string) (pids []string) {
	t.Helper()
	return processesOf(t, "/app serve ", pod)
}

// processesOf returns the ids of the processes in the Pod whose command begins so.
func processesOf(t *testing.T, begin, pod string) (pids []string) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		command, _ := os.ReadFile(path) // the process may have ended
		if !bytes.HasPrefix(bytes.ReplaceAll(command, []byte{0}, []byte(" ")), []byte(begin)) {
			continue
		}
		environment, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if bytes.Contains(append([]byte{0}, environment...), []byte("\x00HOSTNAME="+pod+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}
