package statedir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// holderEnv makes the test binary a process that locks the directory it names and holds it until its stdin ends: a record
// lock is never in the way of the process that has it.
const holderEnv = "STATEDIR_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holderEnv); path != "" {
		hold(path)
		return
	}
	os.Exit(m.Run())
}

func hold(path string) {
	d, err := At(path)
	if err == nil {
		_, err = d.Lock()
	}
	fmt.Println(err)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

func newDir(t *testing.T) Dir {
	t.Helper()
	d, err := At(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Create(); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLockOfAnotherProcess(t *testing.T) {
	d := newDir(t)
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holderEnv+"="+d.Path())
	if _, err := other.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "<nil>\n" {
		t.Fatalf("the other process did not get the lock: %q, %v", line, err)
	}

	if pid, err := d.Holder(); err != nil || pid != other.Process.Pid {
		t.Errorf("Holder: got %d, %v, want process %d", pid, err, other.Process.Pid)
	}
	_, err = d.Lock()
	if inUse := (*InUseError)(nil); !errors.As(err, &inUse) || inUse.PID != other.Process.Pid {
		t.Errorf("Lock: got error %v, want one that names process %d", err, other.Process.Pid)
	}

	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if pid, err := d.Holder(); err != nil || pid != 0 {
		t.Errorf("Holder after the kill: got %d, %v, want none", pid, err)
	}
	lock, err := d.Lock()
	if err != nil {
		t.Fatalf("Lock after the kill: %v", err)
	}
	_ = lock.Close()
}

func TestHolderOfADirectoryThatWasNeverUsed(t *testing.T) {
	d, err := At(filepath.Join(t.TempDir(), "missing"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := d.Holder(); err != nil || pid != 0 {
		t.Errorf("got %d, %v, want none", pid, err)
	}
}

func TestReadyIsSetAndCleared(t *testing.T) {
	d := newDir(t)
	if _, ready := d.Ready(); ready {
		t.Error("a new directory is ready")
	}
	const url = "https://127.0.0.1:26443"
	if err := d.SetReady(url); err != nil {
		t.Fatal(err)
	}
	if got, ready := d.Ready(); !ready || got != url {
		t.Errorf("got %q, %v, want %q", got, ready, url)
	}
	for range 2 {
		if err := d.ClearReady(); err != nil {
			t.Fatal(err)
		}
	}
	if _, ready := d.Ready(); ready {
		t.Error("still ready after ClearReady")
	}
}

func TestWriteFileReplacesAndLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"a longer first content", "second"} {
		if err := WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want only the file", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want readable by the user only", info.Mode())
	}
}

func TestTheLogOfTheRunBeforeIsKept(t *testing.T) {
	d := newDir(t)
	for _, run := range []string{"first", "second"} {
		log, err := d.OpenLog()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(log, "one\ntwo\n%s\n", run)
		_ = log.Close()
	}
	if got, want := d.LastLogLines(2), "two\nsecond"; got != want {
		t.Errorf("last lines: got %q, want %q", got, want)
	}
	if before, err := os.ReadFile(d.Log() + ".1"); err != nil || !strings.Contains(string(before), "first") {
		t.Errorf("log of the run before: got %q, %v", before, err)
	}
}
