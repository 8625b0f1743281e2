// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/testcluster"
)

// buildBinary builds the operator once, with the race detector if the tests have it.
var buildBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "millwright-test")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "millwright")
	output, err := exec.Command("go", "build", "-o", binary, "millwright.dev/cmd/millwright").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the operator: %w\n%s", err, output)
	}
	return binary, nil
})

// process is a running operator.
type process struct {
	*exec.Cmd
	log   *bytes.Buffer
	ended chan struct{}
}

// startProcess starts "millwright controllers" against the cluster. It is killed when the test ends, if it still runs.
func startProcess(t *testing.T, cluster *testcluster.Cluster, args ...string) *process {
	t.Helper()
	binary, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{log: &bytes.Buffer{}, ended: make(chan struct{})}
	p.Cmd = exec.Command(binary, append([]string{"controllers", "--kubeconfig", cluster.Kubeconfig(), "--serving-address", ""}, args...)...)
	p.Stdout, p.Stderr = p.log, p.log
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the log of %v:\n%s", p.Args, p.log)
		}
	})
	return p
}

// awaitEnd waits until the process has ended and returns its exit code.
func (p *process) awaitEnd(t *testing.T, patience time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-p.ended:
	case <-ctx.Done():
		t.Fatalf("it still runs %s later", patience)
	}
	return p.ProcessState.ExitCode()
}

func TestSIGTERMInMidWorkLosesNothing(t *testing.T) {
	cluster := testcluster.Shared(t)
	e := newEnv(t, cluster)
	const count = 200
	for i := range count {
		e.create(immortal(fmt.Sprintf("web-%d", i)))
	}
	first := startProcess(t, cluster, "--leader-elect-lease-namespace", e.namespace)
	e.eventually(func() string {
		if pods := e.podCount(); pods < 20 {
			return fmt.Sprintf("%d Pods", pods)
		}
		return ""
	})
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.awaitEnd(t, 20*time.Second); code != 0 {
		t.Errorf("it ended with exit code %d", code)
	}
	lease, err := e.kube.CoordinationV1().Leases(e.namespace).Get(t.Context(), "millwright-controllers", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("the Lease is still held by %s", holder)
	}
	if pods := e.podCount(); pods == count {
		t.Errorf("the work was done before the signal came: nothing is tested")
	}

	second := startProcess(t, cluster, "--leader-elect-lease-namespace", e.namespace)
	for i := range count {
		e.awaitReady(fmt.Sprintf("web-%d", i), 1)
	}
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := second.awaitEnd(t, 20*time.Second); code != 0 {
		t.Errorf("it ended with exit code %d", code)
	}
}

func (e *env) podCount() int {
	e.Helper()
	pods, err := e.kube.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return len(pods.Items)
}
