// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// text is an ask or a step.
type text string

func (t text) String() string { return string(t) }

// script is a Reconciler whose plans are written down, and which records what is done.
type script struct {
	plans []Plan
	fails map[string]error
	done  []string
}

func (s *script) Decide() Plan {
	plan := s.plans[0]
	s.plans = s.plans[1:]
	s.done = append(s.done, "decide")
	return plan
}

func (s *script) Answer(_ context.Context, ask Ask) error  { return s.do("answer " + ask.String()) }
func (s *script) Apply(_ context.Context, step Step) error { return s.do("apply " + step.String()) }

func (s *script) do(what string) error {
	s.done = append(s.done, what)
	return s.fails[what]
}

func TestReconcile(t *testing.T) {
	broken := errors.New("broken")
	steps := func(names ...text) (steps []Step) {
		for _, name := range names {
			steps = append(steps, name)
		}
		return steps
	}
	for name, tc := range map[string]struct {
		plans     []Plan
		fails     map[string]error
		want      []string
		wantAfter time.Duration
		wantErr   error
	}{
		"an empty plan": {plans: []Plan{{}}, want: []string{"decide"}},
		"asks are answered before it is decided again": {
			plans:     []Plan{{Asks: []Ask{text("a"), text("b")}, RequeueAfter: time.Second}, {Steps: steps("c"), RequeueAfter: time.Minute}},
			want:      []string{"decide", "answer a", "answer b", "decide", "apply c"},
			wantAfter: time.Minute,
		},
		"an answer that fails ends the sync": {
			plans: []Plan{{Asks: []Ask{text("a"), text("b")}}}, fails: map[string]error{"answer a": broken},
			want: []string{"decide", "answer a"}, wantErr: broken,
		},
		"a step that fails ends the sync": {
			plans: []Plan{{Steps: steps("a", "b"), Again: true, RequeueAfter: time.Second}}, fails: map[string]error{"apply a": broken},
			want: []string{"decide", "apply a"}, wantErr: broken,
		},
		"again": {
			plans:     []Plan{{Steps: steps("a"), Again: true, RequeueAfter: time.Minute}, {Steps: steps("b"), RequeueAfter: time.Second}},
			want:      []string{"decide", "apply a", "decide", "apply b"},
			wantAfter: time.Second,
		},
		"a step that finds the plan outdated": {
			plans: []Plan{{Steps: steps("a", "b"), RequeueAfter: time.Second}, {Steps: steps("c")}},
			fails: map[string]error{"apply a": fmt.Errorf("creating a: %w", ErrDecideAgain)},
			want:  []string{"decide", "apply a", "decide", "apply c"},
		},
		"nothing left to do": {
			plans: []Plan{{Steps: steps("a", "b"), RequeueAfter: time.Second}}, fails: map[string]error{"apply a": ErrStop},
			want: []string{"decide", "apply a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{plans: tc.plans, fails: tc.fails}
			after, err := Reconcile(t.Context(), s)
			if after != tc.wantAfter || !errors.Is(err, tc.wantErr) {
				t.Errorf("Reconcile returned %v, %v, want %v, %v", after, err, tc.wantAfter, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, s.done); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEarliestDelay(t *testing.T) {
	for _, tc := range []struct {
		delays []time.Duration
		want   time.Duration
	}{
		{nil, 0}, {[]time.Duration{0, 0}, 0}, {[]time.Duration{0, 5}, 5}, {[]time.Duration{5, 0}, 5}, {[]time.Duration{5, 3, 4}, 3},
		{[]time.Duration{-1, 5}, 5}, {[]time.Duration{-1}, 0},
	} {
		if got := EarliestDelay(tc.delays...); got != tc.want {
			t.Errorf("the earliest of %v is %v, want %v", tc.delays, got, tc.want)
		}
	}
}

func TestStopIfTerminating(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	if err := StopIfTerminating(terminating); !errors.Is(err, ErrStop) {
		t.Errorf("got %v, want ErrStop", err)
	}
	if err := StopIfTerminating(nil); err != nil {
		t.Errorf("got %v for no error", err)
	}
	other := errors.New("other")
	if err := StopIfTerminating(other); err != other {
		t.Errorf("got %v, want the error itself", err)
	}
}
