// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asLeash makes the test binary behave as the command itself.
const asLeash = "TEST_AS_LEASH"

func TestMain(m *testing.M) {
	if os.Getenv(asLeash) != "" {
		main()
	}
	os.Exit(m.Run())
}

// leashed is a leash that runs a shell script; the script has printed a line.
type leashed struct {
	*exec.Cmd
	stdin  io.Closer
	output *bufio.Reader
}

func start(t *testing.T, script string, options ...string) *leashed {
	t.Helper()
	l := &leashed{Cmd: exec.Command(os.Args[0], append(options, "sh", "-c", script)...)}
	l.Env = append(os.Environ(), asLeash+"=1")
	l.Stderr = os.Stderr
	stdin, err := l.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.stdin = stdin
	output, err := l.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.output = bufio.NewReader(output)
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := l.output.ReadString('\n'); err != nil {
		t.Fatalf("the script printed %q: %v", line, err)
	}
	return l
}

// end waits for the end of the leash and returns the rest of the output and the exit status. The output ends when the
// script has ended too.
func (l *leashed) end(t *testing.T) (rest string, status int) {
	t.Helper()
	watchdog := time.AfterFunc(30*time.Second, func() { _ = syscall.Kill(-l.Process.Pid, syscall.SIGKILL) })
	defer watchdog.Stop()
	content, err := io.ReadAll(l.output)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Wait()
	return strings.TrimSpace(string(content)), l.ProcessState.ExitCode()
}

const (
	untilStopped = `trap 'echo stopped; exit 3' TERM; echo ready; while :; do sleep 0.01; done`
	never        = `trap '' TERM; echo ready; while :; do sleep 0.01; done`
)

func TestExitStatusIsPassedOn(t *testing.T) {
	if _, status := start(t, `echo ready; exit 7`).end(t); status != 7 {
		t.Errorf("exit status %d, want 7", status)
	}
	if _, status := start(t, `echo ready; kill -9 $$`).end(t); status != 128+9 {
		t.Errorf("exit status after kill -9 is %d, want 137", status)
	}
}

func TestCommandStopsWithStandardInput(t *testing.T) {
	l := start(t, untilStopped)
	if err := l.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, status := l.end(t); rest != "stopped" || status != 3 {
		t.Errorf("got %q and exit status %d, want stopped and 3", rest, status)
	}
}

func TestTheCommandIsStoppedBySignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		l := start(t, untilStopped)
		if err := l.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if rest, status := l.end(t); rest != "stopped" || status != 3 {
			t.Errorf("%v: got %q and exit status %d, want stopped and 3", signal, rest, status)
		}
	}
}

func TestCommandIsKilledAfterGracePeriod(t *testing.T) {
	l := start(t, never, "-grace", "100ms")
	if err := l.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if _, status := l.end(t); status != 128+9 {
		t.Errorf("exit status %d, want 137", status)
	}
}

func TestPIDFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	l := start(t, `echo ready; while :; do sleep 0.01; done`, "-pid-file", file)
	var content []byte
	for deadline := time.Now().Add(10 * time.Second); len(content) == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		content, _ = os.ReadFile(file)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, status := l.end(t); status != 128+9 {
		t.Errorf("exit status %d, want that of the command of the file, killed: 137", status)
	}
}

func TestTerminalInterruptIsNotPassedOn(t *testing.T) {
	l := start(t, untilStopped)
	group, err := syscall.Getpgid(l.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if group != l.Process.Pid {
		t.Errorf("leash is in process group %d, want one of its own, %d", group, l.Process.Pid)
	}
	if err := l.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	l.end(t)
}

func TestACommandThatDoesNotExistIsNamed(t *testing.T) {
	command := exec.Command(os.Args[0], "/no/such/command")
	command.Env = append(os.Environ(), asLeash+"=1")
	output, _ := command.CombinedOutput()
	if !strings.Contains(string(output), "/no/such/command") || command.ProcessState.ExitCode() != 127 {
		t.Errorf("got %q and exit status %d, want a line that names it and 127", output, command.ProcessState.ExitCode())
	}
}
