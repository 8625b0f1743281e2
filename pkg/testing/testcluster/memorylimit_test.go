// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"errors"
	"os/exec"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	m := WithMemoryLimit(t, 32<<20)
	// tail keeps in memory all that it may have to print.
	run := func(bytes string) error {
		return m.Command("/bin/sh", "-c", "head -c "+bytes+" /dev/zero | tail -c 1000M > /dev/null").Run()
	}
	if err := run("4M"); err != nil {
		t.Fatal(err)
	}
	if kills, err := m.Kills(); err != nil || kills != 0 {
		t.Errorf("got %d kills, error %v, want 0", kills, err)
	}
	err := run("100M")
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Errorf("got %v from a process above the limit, want an exit error", err)
	}
	if kills, err := m.Kills(); err != nil || kills == 0 {
		t.Errorf("got %d kills, error %v, want at least 1", kills, err)
	}
	if peak, err := m.Peak(); err != nil || peak < 16<<20 || peak > 32<<20 {
		t.Errorf("got the peak %d, error %v, want between 16 and 32 MiB", peak, err)
	}
}
