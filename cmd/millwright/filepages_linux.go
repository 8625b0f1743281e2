// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

const (
	// settledAfter is when a process has used what it needs to start, and releaseInterval is how often what it has used since is released.
	settledAfter    = 5 * time.Second
	releaseInterval = 10 * time.Minute
)

// releaseFilePages unmaps the pages of the program's file again and again. Most of them are needed for the start alone, for example by the
// initialization of packages of other subcommands, and the kernel maps at least 16 pages for each one that is read: without it they are five
// sixths of the memory of an idle process. Pages that are still needed are mapped again when they are read, in about a millisecond for all.
func releaseFilePages() {
	var timer *time.Timer
	timer = time.AfterFunc(settledAfter, func() {
		if err := releaseOnce(); err != nil {
			klog.Background().V(2).Info("Cannot release pages of the program's file", "err", err)
			return
		}
		timer.Reset(releaseInterval)
	})
}

func releaseOnce() error {
	file, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	content, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	mappings, err := unchangedMappings(bytes.NewReader(content), file)
	for _, m := range mappings {
		// Not all kernels know the first two. Without the first, one read may map 2 MiB. The second makes the pages in the page cache the next to be
		// reclaimed, which is not counted as memory in use of a container.
		for _, advice := range []uintptr{unix.MADV_NOHUGEPAGE, unix.MADV_COLD} {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, advice)
		}
		if _, _, code := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); code != 0 {
			err = errors.Join(err, fmt.Errorf("madvise(%#x, %d): %w", m.from, m.to-m.from, code))
		}
	}
	return err
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchangedMappings returns where a file is mapped, and can only be read, from what the kernel reports of a process (smaps in proc(5)). Mappings
// with pages that differ from the file are left out, because they cannot be read again: those of a debugger's breakpoints, or of relocated
// addresses.
func unchangedMappings(smaps io.Reader, file string) (unchanged []mapping, err error) {
	var current mapping
	ofFile := false
	lines := bufio.NewScanner(smaps)
	end := func() {
		if ofFile {
			unchanged = append(unchanged, current)
		}
	}
	for lines.Scan() {
		line := lines.Text()
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch {
		case fields[0] == "Anonymous:" || fields[0] == "Swap:":
			ofFile = ofFile && fields[1] == "0"
		case !strings.HasSuffix(fields[0], ":"):
			end()
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &current.from, &current.to); err != nil {
				return nil, fmt.Errorf("reading the mapping %q: %w", line, err)
			}
			ofFile = len(fields) > 5 && !strings.Contains(fields[1], "w") && strings.HasSuffix(line, " "+file)
		}
	}
	end()
	return unchanged, lines.Err()
}
