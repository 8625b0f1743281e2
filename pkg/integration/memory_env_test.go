// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// onlyAsMemoryTest leaves the test to "make test-memory": it takes minutes, and what it measures needs a machine that does nothing else.
func onlyAsMemoryTest(t *testing.T) {
	t.Helper()
	if os.Getenv("MEMORY_TESTS") == "" {
		t.Skip("MEMORY_TESTS is not set: make test-memory runs this test")
	}
}

// memoryLimit of the Deployment's container, as shipped, and the variables by which the process knows it.
func (d deployment) memoryLimit(t testing.TB) (limit int64, env []string) {
	t.Helper()
	for _, shipped := range readDeployments(t) {
		if shipped.Name != string(d) {
			continue
		}
		container := shipped.Spec.Template.Spec.Containers[0]
		limit = container.Resources.Limits.Memory().Value()
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil && from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits."+string(corev1.ResourceMemory) {
				env = append(env, fmt.Sprintf("%s=%d", variable.Name, limit))
			}
		}
	}
	if limit == 0 || len(env) == 0 {
		t.Fatalf("the manifests do not limit the memory of the Deployment %s, or its process does not know: limit %d, variables %q", d, limit, env)
	}
	return limit, env
}

// limitedProcess has as much memory as its Deployment gives it, as shipped. The kernel kills it if it takes more, where this system lets
// us make a memory cgroup; mustHaveFit judges it everywhere.
type limitedProcess struct {
	*process
	limit  int64
	cgroup string // "" without one
}

// startLimited starts "millwright" with these arguments and the limits of the Deployment. It is built without the race detector, which
// takes many times the memory.
func startLimited(t *testing.T, d deployment, args ...string) *limitedProcess {
	t.Helper()
	limit, env := d.memoryLimit(t)
	binary := filepath.Join(t.TempDir(), "millwright")
	if output, err := exec.Command("go", "build", "-o", binary, "millwright.dev/cmd/millwright").CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, output)
	}
	p := &limitedProcess{limit: limit}
	// The shell enters the cgroup and becomes the operator.
	script := `exec env "$@"`
	if cgroup, err := makeMemoryCgroup(fmt.Sprintf("millwright-%d-%s", os.Getpid(), d), limit); err != nil {
		t.Logf("no memory cgroup, so the kernel does not kill the process: %v", err)
	} else {
		p.cgroup, script = cgroup, `echo $$ >"`+cgroup+`/cgroup.procs" && exec env "$@"`
	}
	started, err := launch("/bin/sh", slices.Concat([]string{"-c", script, "sh"}, env, []string{binary}, args)...)
	if err != nil {
		t.Fatal(err)
	}
	p.process = started
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		if p.cgroup != "" {
			_ = os.Remove(p.cgroup)
		}
		if t.Failed() {
			t.Logf("the log of %v:\n%s", p.Args, p.log)
		}
	})
	return p
}

// makeMemoryCgroup returns the folder of a new one.
func makeMemoryCgroup(name string, limit int64) (folder string, err error) {
	const root = "/sys/fs/cgroup"
	text := []byte(strconv.FormatInt(limit, 10))
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0) // it fails where it is so already
		folder = filepath.Join(root, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(folder, "memory.max"), text, 0); err != nil {
			_ = os.Remove(folder)
			return "", err
		}
		_ = os.WriteFile(filepath.Join(folder, "memory.swap.max"), []byte("0"), 0) // absent without swap
		return folder, nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^\d+:memory:(.*)$`).FindSubmatch(own)
	if found == nil {
		return "", fmt.Errorf("there is no memory controller in %q", own)
	}
	folder = filepath.Join(root, "memory", string(found[1]), name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, "memory.limit_in_bytes"), text, 0); err != nil {
		_ = os.Remove(folder)
		return "", err
	}
	return folder, nil
}

// mustHaveFit ends the process, and fails the test if it had ended before, or has taken more than its limit.
func (p *limitedProcess) mustHaveFit(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatalf("the process has ended by itself (killed for its memory, if by signal 9): %v", p.ProcessState)
	default:
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	const kib = 1 << 10
	taken := p.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * kib
	t.Logf("it took %d MiB of %d MiB at most", taken>>20, p.limit>>20)
	if taken > p.limit {
		t.Errorf("it took %d bytes, and has %d", taken, p.limit)
	}
}

// metric that the process serves at the address in its log; -1 if it is not there yet.
func (p *process) metric(e *env, name string) float64 {
	e.Helper()
	o := &operator{process: p, e: e}
	for line := range strings.Lines(o.get("/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				e.Fatal(err)
			}
			return number
		}
	}
	return -1
}
