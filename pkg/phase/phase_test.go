// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"millwright.dev/pkg/blueprint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A function without traits would never be found again, whatever it does.
func TestAllFunctionsHaveTraits(t *testing.T) {
	for name := range traits {
		if _, err := blueprint.Lookup(name); err != nil {
			t.Errorf("traits of %s: %v", name, err)
		}
	}
	for _, name := range blueprint.Names() {
		if _, found := traits[name]; !found {
			t.Errorf("%s has no traits", name)
		}
	}
}

func TestOnlyFailureEndsPhase(t *testing.T) {
	if _, ok := FailureOf(errors.New("connection refused")); ok {
		t.Error("an outage ends a phase")
	}
	if _, ok := FailureOf(nil); ok {
		t.Error("no error ends a phase")
	}
	message, ok := FailureOf(fmt.Errorf("creating a Pod: %w", Failf("exit code %d", 7)))
	if !ok || message != "exit code 7" {
		t.Errorf("the failure is %q (%v), want its own text without what the operator was doing", message, ok)
	}
}

func TestPhaseNames(t *testing.T) {
	seen := map[string]bool{}
	for action := range 12 {
		for phase := Deferred; phase < 12; phase++ {
			text := ID{Action: action, Phase: phase}.String()
			if seen[text] {
				t.Errorf("two phases are %s", text)
			}
			seen[text] = true
		}
	}
}
