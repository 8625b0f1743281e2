// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestABusyMachineIsToldOf(t *testing.T) {
	for load, busy := range map[string]bool{"0.10": false, "0.49": false, "0.50": true, "11.2": true, "": false} {
		if got := busyAdvice(load, 2) != ""; got != busy {
			t.Errorf("a load average of %q on two cores: busy is %v", load, got)
		}
	}
}
