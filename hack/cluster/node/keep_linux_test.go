package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"millwright.dev/hack/cluster/patience"
)

// keeperEnv makes the test binary a process that keeps the program in its arguments running, until its standard input ends. It is a
// process of its own because a reaper waits for all children.
const keeperEnv = "NODE_TEST_KEEPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(keeperEnv); dir != "" {
		beKeeper(dir)
		return
	}
	os.Exit(m.Run())
}

func beKeeper(dir string) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel(nil)
	}()
	k := keeper{reaper: newReaper(), logOf: func(name string) string { return filepath.Join(dir, name) }, giveUp: cancel}
	k.keep(ctx, "kept", os.Args[1], os.Args[2:]...)
	fmt.Println("end:", context.Cause(ctx))
}

type keeperProcess struct {
	cmd    *exec.Cmd
	output *strings.Builder
	dir    string
	stop   func() error
}

// startKeeper keeps a shell script running.
func startKeeper(t *testing.T, script string) *keeperProcess {
	t.Helper()
	p := &keeperProcess{cmd: exec.Command(os.Args[0], "/bin/sh", "-c", script), output: &strings.Builder{}, dir: t.TempDir()}
	p.cmd.Env = append(os.Environ(), keeperEnv+"="+p.dir)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stop = stdin.Close
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// log waits until the kept program has written something to its log that contains the text.
func (p *keeperProcess) log(t *testing.T, text string) string {
	t.Helper()
	for end := time.Now().Add(patience.Limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if content, err := os.ReadFile(filepath.Join(p.dir, "kept")); err == nil && strings.Contains(string(content), text) {
			return string(content)
		}
	}
	t.Fatalf("nothing like %q in the log", text)
	return ""
}

func TestAProcessThatWasKilledIsStartedAgain(t *testing.T) {
	p := startKeeper(t, "echo started $$.; exec sleep 60")
	first, _, _ := strings.Cut(strings.TrimPrefix(p.log(t, "."), "started "), ".")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.log(t, ".\nstarted ")
	if err := errors.Join(p.stop(), p.cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if got, want := p.output.String(), "node: kept was ended by signal SIGKILL and is started again\nend: context canceled\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAProcessThatAlwaysFailsIsGivenUp(t *testing.T) {
	p := startKeeper(t, "exit 3")
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	want := "end: kept cannot be kept running: for the 4th time in a row it exited with code 3 immediately (see " + p.dir + "/kept)\n"
	if got := p.output.String(); !strings.HasSuffix(got, want) || strings.Count(got, "is started again") != 3 {
		t.Errorf("got %q, want three restarts and %q", got, want)
	}
}

func TestHangingProcessIsKilled(t *testing.T) {
	p := startKeeper(t, "trap '' TERM; echo started.; while :; do sleep 0.1; done")
	p.log(t, ".")
	begin := time.Now()
	if err := errors.Join(p.stop(), p.cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < grace {
		t.Errorf("that took %v, want the time of grace, %v, at least", took, grace)
	}
}
