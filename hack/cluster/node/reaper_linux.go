package node

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper starts processes and waits for them, and for all others that end as children of this process: the first process of a
// PID namespace inherits those whose parent has ended, and has to wait for them, or they stay as zombies. It does not use os/exec,
// which would wait for processes too.
type reaper struct {
	mu       sync.Mutex
	children map[int]chan syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{children: map[int]chan syscall.WaitStatus{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			r.reap()
		}
	}()
	return r
}

// start starts a process. Its status comes when it has ended.
func (r *reaper) start(path string, args []string, attributes *syscall.ProcAttr) (pid int, status <-chan syscall.WaitStatus, err error) {
	// Locked until its id is known, for it may end before.
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err = syscall.ForkExec(path, args, attributes)
	if err != nil {
		return 0, nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	c := make(chan syscall.WaitStatus, 1)
	r.children[pid] = c
	return pid, c, nil
}

// reap waits for all children that have ended already.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid <= 0:
			return
		default:
			if c := r.children[pid]; c != nil {
				c <- status
				delete(r.children, pid)
			}
		}
	}
}

// describe returns how a process ended, as text.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "was ended by signal " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("exited with code %d", status.ExitStatus())
}

// endAll kills all processes in this PID namespace but this one, and returns when they are gone. No more can be started.
func (r *reaper) endAll() {
	// Never unlocked: from here on, only this function waits for children.
	r.mu.Lock()
	for {
		_ = unix.Kill(-1, unix.SIGKILL)
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return
		}
	}
}
