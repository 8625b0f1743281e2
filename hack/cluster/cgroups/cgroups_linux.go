// Package cgroups makes and removes a cgroup in all hierarchies of the machine, with all that is below it.
package cgroups

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mountPoint is where the hierarchies are: directories in it (version 1) or the one itself (version 2).
const mountPoint = "/sys/fs/cgroup"

// removeTimeout is how long Remove waits for processes that were killed to be gone.
const removeTimeout = 5 * time.Second

// Controllers are the cgroup controllers that a node requires.
var Controllers = []string{"cpu", "memory", "pids"}

// Create makes the cgroup where it is missing.
func Create(name string) error {
	hierarchies, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if err := enable(hierarchy); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(hierarchy, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making cgroup %s: %w", name, err)
		}
	}
	return nil
}

// enable makes the controllers of a hierarchy of version 2 available in the cgroups below its root. In version 1 they are there.
func enable(hierarchy string) error {
	available, err := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking for the controllers of cgroups: %w", err)
	}
	for controller := range strings.FieldsSeq(string(available)) {
		if !slices.Contains(Controllers, controller) && controller != "cpuset" && controller != "hugetlb" {
			continue
		}
		if err := os.WriteFile(filepath.Join(hierarchy, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			return fmt.Errorf("enabling the controller %s of cgroups: %w", controller, err)
		}
	}
	return nil
}

// Processes lists the processes in the cgroup and below, as far as they are in the PID namespace of this process.
func Processes(name string) ([]int, error) {
	hierarchies, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, hierarchy := range hierarchies {
		err := filepath.WalkDir(filepath.Join(hierarchy, name), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !entry.IsDir() {
				return err
			}
			found, err := processesOf(path)
			pids = append(pids, found...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing the processes of cgroup %s: %w", name, err)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

func processesOf(path string) ([]int, error) {
	content, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	// ENODEV: it was removed after it was opened. EOPNOTSUPP: a threaded cgroup, whose processes its parent lists.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(content)) {
		// 0 stands for a process of another PID namespace.
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Remove kills the processes in the cgroup and below, and removes all of it.
func Remove(name string) error {
	hierarchies, err := hierarchies()
	if err != nil {
		return err
	}
	for end := time.Now().Add(removeTimeout); ; time.Sleep(10 * time.Millisecond) {
		pids, err := Processes(name)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		var errs []error
		for _, hierarchy := range hierarchies {
			errs = append(errs, removeTree(filepath.Join(hierarchy, name)))
		}
		err = errors.Join(errs...)
		if err == nil {
			return nil
		}
		// A process that was killed needs a moment to be gone.
		if time.Now().After(end) {
			return fmt.Errorf("removing cgroup %s: %w", name, err)
		}
	}
}

// removeTree removes the directories only: the files in there are the kernel's.
func removeTree(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(path, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}

// hierarchies lists where hierarchies of cgroups are mounted.
func hierarchies() ([]string, error) {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	var found []string
	for scanner := bufio.NewScanner(mounts); scanner.Scan(); {
		// device, mount point, type, options, ...
		fields := strings.Fields(scanner.Text())
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") && strings.HasPrefix(fields[1], mountPoint) {
			found = append(found, fields[1])
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no cgroups are mounted in %s", mountPoint)
	}
	return found, nil
}

// Usable reports whether cgroups with the Controllers can be created.
func Usable() bool {
	hierarchies, err := hierarchies()
	if err != nil || unix.Access(hierarchies[0], unix.W_OK) != nil {
		return false
	}
	// Version 2 lists them in a file; in version 1 each has a hierarchy of its own or shares one ("cpu,cpuacct").
	var available []string
	for _, hierarchy := range hierarchies {
		listed, _ := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
		available = append(available, strings.Fields(string(listed))...)
		available = append(available, strings.Split(filepath.Base(hierarchy), ",")...)
	}
	for _, controller := range Controllers {
		if !slices.Contains(available, controller) {
			return false
		}
	}
	return true
}
