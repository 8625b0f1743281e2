package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"millwright.dev/hack/cluster/statedir"
)

const (
	// firstRoom is what a new control plane needs at least on the file system of its directory: etcd alone reserves two files of 64 MB
	// before it writes to them.
	firstRoom = 256 << 20
	// furtherRoom is the same if the state exists already.
	furtherRoom = 96 << 20
	// noRoom is what is left of a file system that is full.
	noRoom = 1 << 20
)

// mustHaveRoom returns an error where the file system of the directory, which need not exist, has too little room to start.
func mustHaveRoom(dir statedir.Dir) error {
	path, needed := dir.Path(), uint64(firstRoom)
	if _, err := os.Stat(dir.EtcdData()); err == nil {
		needed = furtherRoom
	}
	for {
		free, err := freeBytes(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path:
			path = filepath.Dir(path)
		case err != nil:
			return nil // what is wrong with the directory is found out by who makes it
		case free < needed:
			return fmt.Errorf("no space left on device: %s has %d MiB left, and a control plane needs %d MiB: free some, or choose another directory by --dir",
				path, free>>20, needed>>20)
		default:
			return nil
		}
	}
}

// isFull reports whether the file system of the directory is the reason why a component gave up.
func isFull(path string, reason error) bool {
	if errors.Is(reason, unix.ENOSPC) || errors.Is(reason, unix.EDQUOT) || reason != nil && strings.Contains(reason.Error(), unix.ENOSPC.Error()) {
		return true
	}
	free, err := freeBytes(path)
	return err == nil && free < noRoom
}

func errFull(path string) error {
	return fmt.Errorf("no space left on device: %s cannot be written to any more. Free some space there, and start again with the same --dir: the state is kept", path)
}

func freeBytes(path string) (uint64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, err
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}
