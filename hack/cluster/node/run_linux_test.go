package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millwright.dev/hack/cluster/cgroups"
	"millwright.dev/hack/cluster/statedir"
)

func newNode(t *testing.T) Node {
	t.Helper()
	dir, err := statedir.At(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Create(); err != nil {
		t.Fatal(err)
	}
	return Of(dir)
}

func TestCgroupsDifferByDirectory(t *testing.T) {
	one, two := newNode(t), newNode(t)
	if one.cgroup() == two.cgroup() {
		t.Errorf("both have %s", one.cgroup())
	}
	if again := Of(one.dir); again.cgroup() != one.cgroup() {
		t.Errorf("at the next start it has %s, before %s", again.cgroup(), one.cgroup())
	}
}

func TestCleanRemovesWhatAKilledNodeHasLeft(t *testing.T) {
	if os.Geteuid() != 0 || !cgroups.Usable() {
		t.Skip("only root can make cgroups, where there are some")
	}
	n := newNode(t)
	if err := cgroups.Create(n.cgroup()); err != nil {
		t.Fatal(err)
	}
	if err := n.Write(PIDFile, []byte("1\n")); err != nil {
		t.Fatal(err)
	}
	found := func() bool {
		inPIDs, _ := filepath.Glob("/sys/fs/cgroup/*" + n.cgroup())
		atRoot, _ := filepath.Glob("/sys/fs/cgroup" + n.cgroup())
		return len(inPIDs)+len(atRoot) > 0
	}
	if !found() {
		t.Fatal("there is no cgroup")
	}
	if err := n.Clean(); err != nil {
		t.Fatal(err)
	}
	if found() {
		t.Error("its cgroup is still there")
	}
	if _, err := os.Stat(n.File(PIDFile)); err == nil {
		t.Error("the id of its first process is still there")
	}
}

func TestFirstProcessHoldsTheLock(t *testing.T) {
	n := newNode(t)
	if err := os.MkdirAll(n.dir.Node(), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := n.lock()
	if err != nil {
		t.Fatal(err)
	}
	if other, err := n.lock(); err == nil || !strings.Contains(err.Error(), "locking") {
		t.Errorf("got %v, %v", other, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := n.lock()
	if err != nil {
		t.Fatalf("after its end: %v", err)
	}
	_ = again.Close()
}
