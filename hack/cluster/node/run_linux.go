package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"millwright.dev/hack/cluster/cgroups"
	"millwright.dev/hack/cluster/statedir"
)

const (
	// stopTimeout bounds the orderly stop, which takes two seconds at most unless the machine is very busy.
	stopTimeout = 10 * time.Second
	// lockFile is locked as long as the node's first process runs.
	lockFile = "lock"
)

// Prepare ends what is left of a run before, and writes the configuration.
func (n Node) Prepare(programs Programs) error {
	if err := n.Clean(); err != nil {
		return err
	}
	files, err := render(n.cgroup(), programs)
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := n.Write(path, content); err != nil {
			return err
		}
	}
	for _, component := range []string{containerd, kubelet, kubeProxy} {
		if err := statedir.KeepLog(n.dir.LogOf(component)); err != nil {
			return err
		}
	}
	return nil
}

// Write writes a file into the node's folder.
func (n Node) Write(path string, content []byte) error {
	path = n.File(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing the configuration of the node: %w", err)
	}
	if err := statedir.WriteFile(path, content); err != nil {
		return fmt.Errorf("writing the configuration of the node: %w", err)
	}
	return nil
}

// Clean ends what is left of a node whose cluster was killed.
func (n Node) Clean() error {
	if err := os.MkdirAll(n.dir.Node(), 0o700); err != nil {
		return fmt.Errorf("making the folder of the node: %w", err)
	}
	// Its first process, which has lost its parent, is about to end.
	for end := time.Now().Add(stopTimeout); ; time.Sleep(pollInterval) {
		lock, err := n.lock()
		if err == nil {
			_ = lock.Close()
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the node of a run before does not end (%w): kill -9 its first process, whose id is in %s", err, n.File(PIDFile))
		}
	}
	if err := os.Remove(n.File(PIDFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return cgroups.Remove(n.cgroup())
}

// lock takes the lock that the node's first process has until it ends.
func (n Node) lock() (*os.File, error) {
	file, err := os.OpenFile(n.File(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return file, nil
}

// Run runs the node until the context ends, and then ends it. The program has to call Init when it gets these arguments. What
// the node prints itself goes to standard error, the output of its components to their logs.
func (n Node) Run(ctx context.Context, args ...string) error {
	cmd := exec.Command(executable, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		// Ctrl-C is for this process, which stops things in their order.
		Setsid: true,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cgroups.Create(n.cgroup()); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting the node's first process: %w", err), cgroups.Remove(n.cgroup()))
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer os.Remove(n.File(PIDFile))
	if err = n.Write(PIDFile, []byte(strconv.Itoa(cmd.Process.Pid)+"\n")); err == nil {
		select {
		case err := <-ended:
			// Had it been killed, these would still be there.
			_ = cgroups.Remove(n.cgroup())
			return fmt.Errorf("its first process ended: %w", err)
		case <-ctx.Done():
		}
	}
	_ = stdin.Close()
	select {
	case <-ended:
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		<-ended
	}
	return errors.Join(err, cgroups.Remove(n.cgroup()))
}
