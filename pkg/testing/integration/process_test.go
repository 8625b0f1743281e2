// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

var build struct {
	once   sync.Once
	folder string // of the binary alone; removeBinary removes it
	binary string
	err    error
}

// buildBinary builds the operator once, with the race detector if the test binary has it, and returns the path.
func buildBinary(t *testing.T) string {
	t.Helper()
	build.once.Do(func() {
		if build.folder, build.err = os.MkdirTemp("", "mw-"); build.err != nil {
			return
		}
		build.binary = filepath.Join(build.folder, "millwright")
		args := []string{"build", "-o", build.binary}
		if raceDetector() {
			args = append(args, "-race")
		}
		output, err := exec.Command("go", append(args, "millwright.dev/cmd/millwright")...).CombinedOutput()
		if err != nil {
			build.err = fmt.Errorf("building the operator: %w\n%s", err, output)
		}
	})
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.binary
}

// removeBinary removes the binary after the last test.
func removeBinary() {
	if build.folder != "" {
		_ = os.RemoveAll(build.folder)
	}
}

// raceDetector reports whether this test binary has the race detector.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// process is a running operator.
type process struct {
	*exec.Cmd
	log   *logBuffer
	ended chan struct{}
}

// logBuffer can be read while it is written.
type logBuffer struct {
	writers atomic.Int32 // calls of Write in progress, one at most
	taking  sync.Mutex   // held while Write must wait
	mu      sync.Mutex
	text    bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.writers.Add(1)
	defer b.writers.Add(-1)
	b.taking.Lock()
	defer b.taking.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

// String returns all that was written.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startProcess starts "millwright controllers". It is killed when the test ends, if it still runs.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return startSubcommand(t, append([]string{"controllers"}, args...)...)
}

// startSubcommand starts "millwright" with these arguments. It is killed when the test ends, if it still runs.
func startSubcommand(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := launch(buildBinary(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the log of %v:\n%s", p.Args, p.log)
		}
	})
	return p
}

// launch starts a process that may be shared by tests. It ends with the test binary.
func launch(binary string, args ...string) (*process, error) {
	p := &process{log: &logBuffer{}, ended: make(chan struct{})}
	p.Cmd = exec.Command(binary, args...)
	p.Stdout, p.Stderr = p.log, p.log
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // the exit code is in ProcessState
	}()
	return p, nil
}

// holdLog fills the pipe of the process's log and stops reading it, so that the process waits when it logs anything, until release is called.
func (p *process) holdLog(e *env) (release func()) {
	e.Helper()
	pipe, err := syscall.Open(fmt.Sprintf("/proc/%d/fd/2", p.Process.Pid), syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		e.Skipf("this system does not allow writing to the log of another process: %v", err)
	}
	defer syscall.Close(pipe)
	p.log.taking.Lock()
	filler := bytes.Repeat([]byte("\n"), 4096)
	e.eventually(func() string {
		waiting := p.log.writers.Load() > 0 // then no reader makes room in the pipe
		for err = nil; err == nil; {
			_, err = syscall.Write(pipe, filler)
		}
		if !waiting || err != syscall.EAGAIN {
			return fmt.Sprintf("the log of the process is not full yet: %v", err)
		}
		return ""
	})
	return p.log.taking.Unlock
}

// awaitEnd waits until the process has ended, and returns its exit code.
func (p *process) awaitEnd(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience.Limit):
		t.Fatalf("the process still runs after %s", patience.Limit)
	}
	return p.ProcessState.ExitCode()
}

// The leader stops in the middle of its work, and the next process does the rest.
func TestImmortalContainerSIGTERM(t *testing.T) {
	cluster := testcluster.Shared(t)
	e := newEnv(t, cluster)
	const count = 200
	for i := range count {
		e.create(immortal(fmt.Sprintf("web-%d", i)))
	}
	// As in the manifests, with this Lease and for all namespaces.
	args := []string{
		"--kubeconfig", operatorAccount(t, cluster).WriteKubeconfig(t), "--serving-address", "",
		"--controllers", strings.Join(core.controllers(t), ","), "--leader-elect-lease-namespace", accountNamespace, "--leader-elect-lease-name", string(core),
	}
	first := startProcess(t, args...)
	e.eventually(func() string {
		if pods := e.podCount(); pods < 20 {
			return fmt.Sprintf("got %d Pods, want 20", pods)
		}
		return ""
	})
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.awaitEnd(t); code != 0 {
		t.Errorf("exit code after SIGTERM: got %d, want 0", code)
	}
	lease, err := e.kube.CoordinationV1().Leases(accountNamespace).Get(t.Context(), string(core), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("holder of the Lease: got %s, want none", holder)
	}
	if pods := e.podCount(); pods == count {
		t.Errorf("all Pods were created before the signal: nothing is tested")
	}

	second := startProcess(t, args...)
	for i := range count {
		e.awaitReady(fmt.Sprintf("web-%d", i), 1)
	}
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := second.awaitEnd(t); code != 0 {
		t.Errorf("exit code after SIGTERM: got %d, want 0", code)
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
