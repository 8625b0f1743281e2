// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestOnlyUnchangedMappingsOfTheFileAreReleased(t *testing.T) {
	const file = "/opt/a b/millwright"
	got, err := unchangedMappings(strings.NewReader(smaps(
		"00400000-02922000 r-xp 00001000 fd:00 123                       "+file, "0", "0",
		"02922000-05720000 r--p 02522000 fd:00 123                       "+file, "0", "0",
		"05751000-05828000 rw-p 05351000 fd:00 123                       "+file, "0", "0", // it can be changed
		"05828000-05829000 r--p 05428000 fd:00 123                       "+file, "4", "0", // it was changed
		"05829000-0582a000 r--p 05429000 fd:00 123                       "+file, "0", "4", // it was changed, and is in the swap space
		"c000000000-c000400000 r--p 00000000 00:00 0 ", "0", "0",
		"7f0000000000-7f0000001000 r--p 00000000 fd:00 124               /lib/libc.so", "0", "0",
		"ffff00000000-ffff00001000 r--p 0582a000 fd:00 123               "+file, "0", "0",
	)), file)
	want := []mapping{{0x400000, 0x2922000}, {0x2922000, 0x5720000}, {0xffff00000000, 0xffff00001000}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %x, %v; want %x", got, err, want)
	}
	if got, err := unchangedMappings(strings.NewReader("nonsense r-xp 0 0 0 "+file), file); err == nil {
		t.Errorf("nonsense is read as %x", got)
	}
}

// smaps makes the kernel's text of mappings, each of which is given by a line, its changed pages and its pages in the swap space, in kB.
func smaps(mappings ...string) string {
	var text strings.Builder
	for m := range slices.Chunk(mappings, 3) {
		fmt.Fprintf(&text, "%s\nSize:   4 kB\nRss:   4 kB\nAnonymous:   %s kB\nSwap:   %s kB\nVmFlags: rd mr mw me \n", m[0], m[1], m[2])
	}
	return text.String()
}

func TestReleasingFilePagesFreesMemory(t *testing.T) {
	before := residentFile(t)
	if err := releaseOnce(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after > before/2 {
		t.Errorf("%d kB of files are resident, before it were %d", after, before)
	}
	if content, err := os.ReadFile("/proc/self/smaps"); err != nil || len(content) == 0 { // the program still runs
		t.Error(err)
	}
}

// residentFile returns how much of files is in the memory of this process, in kB.
func residentFile(t *testing.T) (size int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if n, err := fmt.Sscanf(line, "RssFile: %d kB", &size); n == 1 && err == nil {
			return size
		}
	}
	t.Fatalf("no RssFile in:\n%s", status)
	return 0
}
