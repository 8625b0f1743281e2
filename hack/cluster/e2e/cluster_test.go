package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millwright.dev/hack/cluster/patience"
	"millwright.dev/hack/cluster/statedir"
)

// cluster is a running "cluster up".
type cluster struct {
	*process
	dir statedir.Dir
	url string
}

// process is a running command.
type process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	exited chan struct{}
}

// up starts a cluster in the directory and waits until it is ready.
func up(t *testing.T, path string, args ...string) *cluster {
	t.Helper()
	return waitFor(t, start(t, upCommand(path, args...)), path)
}

func upCommand(path string, args ...string) *exec.Cmd {
	return exec.Command(binary, append([]string{"up", "--dir", path}, args...)...)
}

func waitFor(t *testing.T, p *process, path string) *cluster {
	t.Helper()
	dir, err := statedir.At(path)
	if err != nil {
		t.Fatal(err)
	}
	url, err := exec.Command(binary, "wait", "--dir", path, patience.Timeout).Output()
	if err != nil {
		t.Fatalf("the cluster is not ready: %v\n%s\nIts output:\n%s", err, stderr(err), p.output.String())
	}
	return &cluster{process: p, dir: dir, url: strings.TrimSpace(string(url))}
}

// start starts a command that is killed at the end of the test, should it still run.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() { p.signal(t, syscall.SIGKILL) })
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends a signal and waits until the process has exited.
func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(patience.Limit):
		t.Fatalf("process %d still runs %s after %v; its output:\n%s", p.pid(), patience.Limit, signal, p.output.String())
	}
}

func (p *process) exitCode() int { return p.cmd.ProcessState.ExitCode() }

// kubectl runs kubectl as the administrator of the cluster and returns what it prints.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return c.apply(t, "", args...)
}

// apply is kubectl with a manifest on standard input.
func (c *cluster) apply(t *testing.T, manifest string, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"kubectl", "--kubeconfig", c.dir.AdminKubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, stderr(err))
	}
	return strings.TrimSpace(string(out))
}

// stderr is what a command that failed has printed there.
func stderr(err error) string {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// lockedBuffer is a buffer that may be read while a process writes to it.
type lockedBuffer struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}
