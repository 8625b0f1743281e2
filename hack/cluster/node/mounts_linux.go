package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ownFolders are empty in the node and hide the machine's: containerd, kubelet and the CNI plugins keep files at fixed places in
// them, where those of several clusters, or of a cluster of the machine's, would be in each other's way.
var ownFolders = []string{"/run", "/var/lib", "/var/log"}

// mountPrivately gives this process, which has a mount namespace of its own, what the node needs: the processes of its PID
// namespace in /proc, and the node's folder at Root. The state directory stays where it is. Nothing of that is seen outside.
func mountPrivately(stateDir, folder string) error {
	// What is unmounted outside goes here too, so that this process holds nothing; and what is mounted here may be handed on
	// to containers.
	for _, propagation := range []uintptr{unix.MS_SLAVE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("separating the node's mounts from the machine's: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	state, err := unix.Open(stateDir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", stateDir, err)
	}
	defer unix.Close(state)
	for _, path := range ownFolders {
		if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return fmt.Errorf("mounting an empty %s: %w", path, err)
		}
	}
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		if err := bind(fmt.Sprintf("/proc/self/fd/%d", state), stateDir); err != nil {
			return err
		}
	}
	if err := bind(folder, Root); err != nil {
		return err
	}
	return hideResolver()
}

// hideResolver gives the node an empty resolver configuration: no name server can be reached. containerd wants to read one, and the
// machine's is often a link into /run, which is empty now.
func hideResolver() error {
	path := "/etc/resolv.conf"
	if link, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		path = link
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("hiding the machine's name servers: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return fmt.Errorf("hiding the machine's name servers: %w", err)
	}
	defer file.Close()
	return mountBind(inRoot(resolverConfig), path)
}

// bind shows a directory at another place too.
func bind(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", from, to, err)
	}
	return mountBind(from, to)
}

func mountBind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", from, to, err)
	}
	return nil
}
