// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"millwright.dev/pkg/phase"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testID is a phase of an ActionSet.
var testID = phase.ID{Namespace: "apps", Name: "backup-x", UID: "5a11", Action: 0, Phase: 1}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func wantState(t *testing.T, what string, found phase.Observation, want phase.State) {
	t.Helper()
	if found.State != want {
		t.Fatalf("%s: the state is %q (%s), want %q", what, found.State, found.Message, want)
	}
}

func wantText(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s is\n%s\nand does not have %q", what, text, part)
		}
	}
}
