// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

func TestBuiltInFor(t *testing.T) {
	type answer struct {
		name      string
		on, known bool
	}
	for name, test := range map[string]struct {
		answer
		problem, checksAgain bool
	}{
		"there is none":             {answer{"", false, true}, false, false},
		"it is off":                 {answer{"machine", false, true}, false, true},
		"it is on":                  {answer{"machine", true, true}, true, true},
		"it is not known yet":       {answer{"machine", false, false}, false, true},
		"it is on, as far as known": {answer{"machine", true, false}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{Config: Config{BuiltIn: func(parents schema.GroupResource) (string, bool, bool) {
				if parents != things.GroupResource() {
					t.Errorf("it asks about %s", parents)
				}
				return test.name, test.on, test.known
			}}}
			cc := controllerWith()
			problem, known := c.builtInFor(declared(cc))
			if (problem != nil) != test.problem || known != test.known {
				t.Errorf("problem %v, known %t", problem, known)
			}
			if problem != nil && (problem.Reason != v1alpha1.ReasonServedByBuiltIn ||
				!strings.Contains(problem.Message, "controller machine") || !strings.Contains(problem.Message, "--controllers=*,-machine")) {
				t.Errorf("the problem is %+v", *problem)
			}
			if again := c.untilBuiltIn(declared(cc)) > 0; again != test.checksAgain {
				t.Errorf("checks again: %t", again)
			}
		})
	}
}
