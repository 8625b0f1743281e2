// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// MemoryLimit is a memory cgroup: the kernel kills its processes if together they use more than the limit, as it does in a container.
type MemoryLimit struct {
	dir   string
	files memoryFiles
}

// memoryFiles names the files of a memory cgroup with the limit, the peak usage, and a line "oom_kill <count>".
type memoryFiles struct{ root, limit, peak, kills string }

// memoryHierarchies has the files of cgroup v2 and v1.
var memoryHierarchies = []memoryFiles{
	{"/sys/fs/cgroup", "memory.max", "memory.peak", "memory.events"},
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"},
}

// WithMemoryLimit creates a memory cgroup with the limit in bytes for the duration of the test. Its processes must have ended when the
// test's own cleanups have run. The test is skipped on a machine that does not allow it, with the reason.
func WithMemoryLimit(t testing.TB, limit int64) *MemoryLimit {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("creating a memory cgroup needs root: run this test as root")
	}
	var reasons []error
	for _, files := range memoryHierarchies {
		m, err := newMemoryLimit(files, limit)
		if err != nil {
			reasons = append(reasons, err)
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(m.dir); err != nil {
				t.Errorf("removing the memory cgroup: %v", err)
			}
		})
		return m
	}
	t.Skipf("no writable memory cgroup on this machine: %v", errors.Join(reasons...))
	return nil
}

func newMemoryLimit(files memoryFiles, limit int64) (*MemoryLimit, error) {
	dir, err := os.MkdirTemp(files.root, "millwright-test-")
	if err != nil {
		return nil, err
	}
	if err := writeExisting(filepath.Join(dir, files.limit), strconv.FormatInt(limit, 10)); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &MemoryLimit{dir: dir, files: files}, nil
}

// writeExisting writes to a file of the kernel. It never creates a file.
func writeExisting(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// Command returns a command that runs the program in the cgroup. The shell that enters the cgroup is replaced by the program, so both
// have the same process id.
func (m *MemoryLimit) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("/bin/sh", append([]string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(m.dir, "cgroup.procs"), name}, args...)...)
}

// Kills returns the number of processes that the kernel has killed because of the limit.
func (m *MemoryLimit) Kills() (int, error) {
	content, err := os.ReadFile(filepath.Join(m.dir, m.files.kills))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if count, found := strings.CutPrefix(line, "oom_kill "); found {
			return strconv.Atoi(strings.TrimSpace(count))
		}
	}
	return 0, fmt.Errorf("%s has no line oom_kill: %q", m.files.kills, content)
}

// Peak returns the highest memory usage so far in bytes, the page cache included.
func (m *MemoryLimit) Peak() (int64, error) {
	content, err := os.ReadFile(filepath.Join(m.dir, m.files.peak))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
}
