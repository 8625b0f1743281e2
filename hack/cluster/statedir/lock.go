package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// InUseError is the error if another process runs a cluster in the directory.
type InUseError struct {
	Path string
	PID  int
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is in use by process %d, which runs a cluster there: stop it (kill %d) or choose another directory", e.Path, e.PID, e.PID)
}

// Lock takes the directory for this process until it ends, however it ends. The error is an *InUseError when another process
// has it. It is a record lock (fcntl) and not flock, because of a record lock one can ask who holds it without taking it.
//
// Such a lock is lost as soon as the process closes any descriptor of the file: Lock may be called once, and the file that it
// returns has to stay open.
func (d Dir) Lock() (*os.File, error) {
	file, err := os.OpenFile(d.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	whole := syscall.Flock_t{Type: syscall.F_WRLCK}
	err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &whole)
	if err == nil {
		return file, nil
	}
	defer file.Close()
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		if pid, err := holder(file); err == nil {
			return nil, &InUseError{Path: d.root, PID: pid}
		}
	}
	return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
}

// Holder returns the id of the process that runs a cluster in the directory, 0 when there is none.
func (d Dir) Holder() (pid int, err error) {
	file, err := os.Open(d.lock())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("checking which process uses the state directory: %w", err)
	}
	defer file.Close()
	return holder(file)
}

func holder(file *os.File) (pid int, err error) {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("checking which process holds %s: %w", file.Name(), err)
	}
	if lock.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return int(lock.Pid), nil
}
