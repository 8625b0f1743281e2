package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/hack/cluster/patience"
)

// machineState is what a node could leave on the machine, except cgroups, which have its name.
type machineState struct {
	mounts   []string
	networks []string // names of network namespaces
}

func lookAtMachine(t *testing.T) machineState {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	networks, err := filepath.Glob("/run/netns/*")
	if err != nil {
		t.Fatal(err)
	}
	return machineState{strings.Split(string(mounts), "\n"), networks}
}

func (s machineState) compare(t *testing.T, before machineState) {
	t.Helper()
	if diff := cmp.Diff(before, s, cmp.AllowUnexported(machineState{})); diff != "" {
		t.Errorf("the machine is not as it was before (-before +now):\n%s", diff)
	}
}

// space is where the processes of one node are.
type space struct {
	init       int    // id of its first process
	namespaces string // PID and mount namespace, which only it has
	network    string // network namespace, in which is the control plane too
	cgroup     string // name of the cgroup of its Pods
}

func spaceOf(t *testing.T, c *cluster) space {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.dir.Node(), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(c.dir.Node(), "config", "kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, cgroup, found := strings.Cut(string(config), "\ncgroupRoot: ")
	if !found {
		t.Fatalf("no cgroup in:\n%s", config)
	}
	cgroup, _, _ = strings.Cut(cgroup, "\n")
	s := space{init: pid, namespaces: namespaces(pid, "mnt"), network: namespaces(pid, "net"), cgroup: cgroup}
	if s.namespaces == "" || s.namespaces == namespaces(os.Getpid(), "mnt") || s.network == namespaces(os.Getpid(), "net") {
		t.Fatalf("the first process of the node, %d, has no namespaces of its own", pid)
	}
	return s
}

// namespaces identifies a namespace of a process, empty when the process has ended.
func namespaces(pid int, kind string) string {
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	return link
}

// processesIn lists the processes of the node: those in its namespaces, or in cgroups of its Pods. Those of containers have
// other namespaces.
func (s space) processesIn(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cgroups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if strings.Contains(string(cgroups), s.cgroup) || namespaces(pid, "mnt") == s.namespaces || namespaces(pid, "net") == s.network {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processesOf lists those processes of the node whose command line begins like that.
func processesOf(t *testing.T, s space, command string) []int {
	t.Helper()
	return slices.DeleteFunc(s.processesIn(t), func(pid int) bool { return !strings.HasPrefix(commandLine(pid), command) })
}

func commandLine(pid int) string {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(content), "\x00", " ")
}

func kill(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// cgroups lists the cgroups of the node's Pods, in all hierarchies.
func (s space) cgroups(t *testing.T) (found []string) {
	t.Helper()
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		matches, err := filepath.Glob(hierarchy + s.cgroup)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	return found
}

// expectEmpty waits until nothing runs there any more: with the last process, mounts and network go too.
func (s space) expectEmpty(t *testing.T) {
	t.Helper()
	var left []string
	for end := time.Now().Add(patience.Limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		left = nil
		for _, pid := range s.processesIn(t) {
			left = append(left, fmt.Sprintf("%d %s", pid, commandLine(pid)))
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("after %s still there are:\n%s", patience.Limit, strings.Join(left, "\n"))
}
