// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

func TestParentsAreLeftToAControllerOfMillwrightWhileItRuns(t *testing.T) {
	type answer struct {
		name      string
		on, known bool
	}
	for name, test := range map[string]struct {
		answer
		wrong, looksAgain bool
	}{
		"none ever serves them":     {answer{"", false, true}, false, false},
		"it is off":                 {answer{"machine", false, true}, false, true},
		"it is on":                  {answer{"machine", true, true}, true, true},
		"it is not known yet":       {answer{"machine", false, false}, false, true},
		"it is on, as far as known": {answer{"machine", true, false}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{Config: Config{BuiltIn: func(parent schema.GroupResource) (string, bool, bool) {
				if parent != things.GroupResource() {
					t.Errorf("it asks about %s", parent)
				}
				return test.name, test.on, test.known
			}}}
			cc := controllerWith()
			wrong, known := c.builtInFor(cc)
			if (wrong != nil) != test.wrong || known != test.known {
				t.Errorf("wrong %v, known %t", wrong, known)
			}
			if wrong != nil && (wrong.reason != v1alpha1.ReasonServedByBuiltIn || !strings.Contains(wrong.message, "controller machine") || !strings.Contains(wrong.message, "--controllers=*,-machine")) {
				t.Errorf("it says %+v", *wrong)
			}
			if again := c.untilBuiltIn(cc) > 0; again != test.looksAgain {
				t.Errorf("looks again: %t", again)
			}
		})
	}
}
