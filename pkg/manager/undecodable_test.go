// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	appsv1 "millwright.dev/pkg/apis/apps/v1"
)

// TestUndecodableObjectsHaveEvents: one for each object that was reported before the process leads, with the last error, and one for each report
// afterwards.
func TestUndecodableObjectsHaveEvents(t *testing.T) {
	recorder := record.NewFakeRecorder(2 * maxPending)
	events := func() (events []string) {
		for len(recorder.Events) > 0 {
			events = append(events, <-recorder.Events)
		}
		slices.Sort(events)
		return events
	}
	u := newUndecodable(recorder)
	mended := map[int]bool{}
	report := func(uid int, problem string) {
		u.report(t.Context(), &appsv1.HelloApp{ObjectMeta: metav1.ObjectMeta{Name: "app", UID: types.UID(fmt.Sprint(uid))}}, errors.New(problem),
			func() bool { return mended[uid] })
	}
	report(1, "first")
	report(2, "second")
	report(1, "third")
	report(4, "mended")
	mended[4] = true
	if got := events(); got != nil {
		t.Errorf("before the process leads, the events are %q", got)
	}
	u.lead()
	u.lead() // for each controller
	event := func(problem string) string {
		return "Warning Undecodable Nothing is done with this object, which cannot be decoded: " + problem
	}
	if got := events(); !slices.Equal(got, []string{event("second"), event("third")}) {
		t.Errorf("the events are %q", got)
	}
	report(1, strings.Repeat("x", 1<<20))
	if got := events(); len(got) != 1 || len(got[0]) > len(event(""))+maxUndecodable {
		t.Errorf("%d events, the first of %d bytes", len(got), len(got[0]))
	}

	u = newUndecodable(recorder)
	delete(mended, 4)
	for i := range maxPending + 10 {
		report(i, "one of many")
	}
	u.lead()
	if got := events(); len(got) != maxPending {
		t.Errorf("%d events, want %d", len(got), maxPending)
	}
}
