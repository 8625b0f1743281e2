package node

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settled is how long a process has to run for its start to count as a success, restartDelay what comes between an end and the
	// next start, and maxFailures the number of starts without success, one after the other, after which the node gives up.
	settled      = 3 * time.Second
	restartDelay = 200 * time.Millisecond
	maxFailures  = 4
)

// keeper keeps processes running, as an init system does.
type keeper struct {
	reaper *reaper
	logOf  func(name string) string
	// giveUp ends the node when a process cannot be kept running.
	giveUp context.CancelCauseFunc
}

// keep runs a process, again and again, until the context ends.
func (k keeper) keep(ctx context.Context, name, path string, args ...string) {
	for failures := 0; ; {
		begin := time.Now()
		ending, err := k.run(ctx, name, path, args)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.giveUp(err)
			return
		}
		if failures++; time.Since(begin) > settled {
			failures = 0
		}
		if failures == maxFailures {
			k.giveUp(fmt.Errorf("%s cannot be kept running: for the %dth time in a row it %s immediately (see %s)", name, failures, ending, k.logOf(name)))
			return
		}
		fmt.Fprintf(os.Stderr, "node: %s %s and is started again\n", name, ending)
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartDelay):
		}
	}
}

// run runs a process until it ends or the context does, and returns how it ended.
func (k keeper) run(ctx context.Context, name, path string, args []string) (ending string, err error) {
	log, err := os.OpenFile(k.logOf(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", err
	}
	defer null.Close()
	pid, status, err := k.reaper.start(path, append([]string{name}, args...), &syscall.ProcAttr{
		// Not the machine's environment, which may be about its own network (proxies) and container runtime.
		Env:   []string{"PATH=" + os.Getenv("PATH"), "HOME=" + Root},
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
	})
	if err != nil {
		return "", err
	}
	select {
	case s := <-status:
		return describe(s), nil
	case <-ctx.Done():
	}
	_ = unix.Kill(pid, unix.SIGTERM)
	select {
	case <-status:
	case <-time.After(grace):
		_ = unix.Kill(pid, unix.SIGKILL)
		<-status
	}
	return "was stopped", nil
}
