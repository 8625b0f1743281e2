// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/testing/testcluster"
)

// onlyAsMemoryTest skips a test unless "make test-memory" runs it: it takes minutes, and it needs a machine that does nothing else.
func onlyAsMemoryTest(t *testing.T) {
	t.Helper()
	if os.Getenv("MEMORY_TESTS") == "" {
		t.Skip("MEMORY_TESTS is not set: make test-memory runs this test")
	}
}

// memoryLimit returns the memory limit of the Deployment's container in the manifests, in bytes, and the names of the variables that give it to the process.
func (d deployment) memoryLimit(t testing.TB) (limit int64, variables []string) {
	t.Helper()
	for _, shipped := range readDeployments(t, d.manifests()) {
		if shipped.Name != string(d) {
			continue
		}
		container := shipped.Spec.Template.Spec.Containers[0]
		limit = container.Resources.Limits.Memory().Value()
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil && from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits."+string(corev1.ResourceMemory) {
				variables = append(variables, variable.Name)
			}
		}
	}
	if limit == 0 || len(variables) == 0 {
		t.Fatalf("Deployment %s: got memory limit %d and variables %q, want both", d, limit, variables)
	}
	return limit, variables
}

// limitedProcess is a process with the memory limit of its Deployment. The kernel kills it if it uses more, as it does with a container.
type limitedProcess struct {
	*process
	limit  int64
	memory *testcluster.MemoryLimit
}

// startLimited starts "millwright" with these arguments and the memory limit of the Deployment. The binary is built without the race
// detector, which needs many times the memory.
func startLimited(t *testing.T, d deployment, args ...string) *limitedProcess {
	t.Helper()
	return startLimitedTo(t, d, 100, args...)
}

// startLimitedTo is startLimited with a part of that memory limit, in percent, as if limits.memory was changed.
func startLimitedTo(t *testing.T, d deployment, percent int64, args ...string) *limitedProcess {
	t.Helper()
	limit, variables := d.memoryLimit(t)
	limit = limit * percent / 100
	var env []string
	for _, name := range variables {
		env = append(env, fmt.Sprintf("%s=%d", name, limit))
	}
	memory := testcluster.WithMemoryLimit(t, limit)
	binary := filepath.Join(t.TempDir(), "millwright")
	if output, err := exec.Command("go", "build", "-o", binary, "millwright.dev/cmd/millwright").CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, output)
	}
	command := memory.Command("/usr/bin/env", slices.Concat(env, []string{binary}, args)...)
	started, err := launch(command.Path, command.Args[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = started.Process.Kill()
		<-started.ended
		if t.Failed() {
			t.Logf("the end of the log:\n%s", started.log.String()[max(0, len(started.log.String())-20_000):])
		}
	})
	return &limitedProcess{process: started, limit: limit, memory: memory}
}

// mustRun fails the test if the process has ended. It returns "", for checks that are repeated.
func (p *limitedProcess) mustRun(t *testing.T) string {
	t.Helper()
	select {
	case <-p.ended:
		kills, err := p.memory.Kills()
		t.Fatalf("the process has ended: %v; the kernel killed %d processes for lack of memory (%v)", p.ProcessState, kills, err)
	default:
	}
	return ""
}

// mustHaveFit stops the process. It fails the test if the exit code is not 0, or if the kernel has killed a process for lack of memory.
func (p *limitedProcess) mustHaveFit(t *testing.T) {
	t.Helper()
	p.mustRun(t)
	peak, err := p.memory.Peak() // with the page cache, which the kernel reclaims first
	t.Logf("peak memory: %d MiB of %d MiB (%v)", peak>>20, p.limit>>20, err)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if !p.ProcessState.Success() {
		t.Errorf("process after SIGTERM: got %v, want exit code 0", p.ProcessState)
	}
	if kills, err := p.memory.Kills(); kills != 0 || err != nil {
		t.Errorf("processes killed for lack of memory: got %d (%v), want none", kills, err)
	}
}

// metric returns a metric of the process, or -1 if the process does not serve it yet.
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
