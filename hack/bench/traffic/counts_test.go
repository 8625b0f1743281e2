// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"testing"
)

func start(object string) []Request {
	return []Request{
		{Verb: "update", Resource: "immortalcontainers/status", Object: object, Code: 200},
		{Verb: "create", Resource: "pods", Object: object, Code: 201},
		{Verb: "create", Resource: "events", Object: object, Code: 201},
	}
}

func TestRequestsAreCountedByTheirObjectAndReadsCountToo(t *testing.T) {
	requests := slices.Concat(start("a"), start("b"), []Request{
		{Verb: "get", Resource: "pods", Object: "b", Code: 404},
		{Verb: "list", Resource: "immortalcontainers", Code: 200},
	})
	c := Count(requests)
	object, kinds := c.Most()
	if object != "b" || len(kinds) != 4 || kinds[3] != "get pods" {
		t.Errorf("most requests took %q: %v, want b with four, the last of them get pods", object, kinds)
	}
	if got := c.Above(3); got != 1 {
		t.Errorf("%d objects took more than three, want one", got)
	}
	if got := c.Mean(2); got != 4 {
		t.Errorf("the mean is %v, want 4: eight requests for two objects", got)
	}
	if c.Failed != 1 || c.Others != 1 {
		t.Errorf("%d failed and %d were about no object, want one each", c.Failed, c.Others)
	}
	want := "2 create events, 2 create pods, 2 update immortalcontainers/status, 1 get pods, 1 list immortalcontainers, 1 of them refused"
	if got := c.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWithoutRequestsThereIsNoMost(t *testing.T) {
	if object, kinds := Count(nil).Most(); object != "" || kinds != nil {
		t.Errorf("got %q with %v", object, kinds)
	}
}
