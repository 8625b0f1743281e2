// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"errors"
	"os/exec"
	"testing"
)

func TestAMemoryLimitKillsWhatTakesMoreAndNothingElse(t *testing.T) {
	m := WithMemoryLimit(t, 32<<20)
	// tail keeps all that it might have to print.
	run := func(bytes string) error {
		return m.Command("/bin/sh", "-c", "head -c "+bytes+" /dev/zero | tail -c 1000M > /dev/null").Run()
	}
	if err := run("4M"); err != nil {
		t.Fatal(err)
	}
	if kills, err := m.Kills(); err != nil || kills != 0 {
		t.Errorf("%d kills, error %v", kills, err)
	}
	err := run("100M")
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Errorf("a process that takes more ends with %v", err)
	}
	if kills, err := m.Kills(); err != nil || kills == 0 {
		t.Errorf("%d kills, error %v", kills, err)
	}
	if peak, err := m.Peak(); err != nil || peak < 16<<20 || peak > 32<<20 {
		t.Errorf("the peak is %d, error %v", peak, err)
	}
}
