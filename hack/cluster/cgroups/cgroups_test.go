//go:build linux

package cgroups

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func TestCgroupIsRemovedWithItsProcesses(t *testing.T) {
	if os.Geteuid() != 0 || !Usable() {
		t.Skip("only root can make cgroups, where there are some")
	}
	name := fmt.Sprintf("/millwright-test-%d", os.Getpid())
	for range 2 { // once more is no error
		if err := Create(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := Remove(name); err != nil {
			t.Error(err)
		}
	})
	all, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	// In a cgroup below, and in one hierarchy only.
	var below string
	for _, hierarchy := range all {
		if filepath.Base(hierarchy) == "pids" || len(all) == 1 {
			below = filepath.Join(hierarchy, name, "below", "it")
		}
	}
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	process := exec.Command("sleep", "60")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(process.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := Processes(name); err != nil || !slices.Equal(got, []int{process.Process.Pid}) {
		t.Errorf("processes: got %v, %v, want %d", got, err, process.Process.Pid)
	}

	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	if err := Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process ended by itself")
	}
	for _, hierarchy := range all {
		if _, err := os.Stat(filepath.Join(hierarchy, name)); err == nil {
			t.Errorf("it is still in %s", hierarchy)
		}
	}
	if err := Remove(name); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}
