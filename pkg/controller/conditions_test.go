// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTransitionTime(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute)) }
	var conditions []metav1.Condition
	for _, step := range []struct {
		name   string
		minute int
		status metav1.ConditionStatus
		reason string
		want   metav1.Condition
	}{
		{"a new one is of now", 0, metav1.ConditionFalse, "Starting",
			metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Starting", Message: "0", ObservedGeneration: 10, LastTransitionTime: at(0)}},
		{"another reason is no transition", 1, metav1.ConditionFalse, "Crashing",
			metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Crashing", Message: "1", ObservedGeneration: 11, LastTransitionTime: at(0)}},
		{"another status is one", 2, metav1.ConditionTrue, "Running",
			metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Running", Message: "2", ObservedGeneration: 12, LastTransitionTime: at(2)}},
		{"the same status later is none", 3, metav1.ConditionTrue, "Running",
			metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Running", Message: "3", ObservedGeneration: 13, LastTransitionTime: at(2)}},
	} {
		SetCondition(&conditions, at(step.minute).Time, int64(10+step.minute), "Ready", step.status, step.reason, fmt.Sprint(step.minute))
		if diff := cmp.Diff([]metav1.Condition{step.want}, conditions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestLongConditionMessage(t *testing.T) {
	var conditions []metav1.Condition
	SetCondition(&conditions, time.Now(), 1, "Ready", metav1.ConditionFalse, "Long", strings.Repeat("x", 40000))
	if got := len(conditions[0].Message); got != 32768 {
		t.Errorf("the message has %d bytes, want 32768", got)
	}
}

func TestTruncateCutsBetweenCharacters(t *testing.T) {
	for name, tc := range map[string]struct {
		text     string
		maxBytes int
		want     string
	}{
		"text that fits stays as it is":               {"wörld", 6, "wörld"},
		"no text":                                     {"", 0, ""},
		"nothing fits":                                {"a", 0, ""},
		"plain text is cut at the byte":               {"abcdef", 3, "abc"},
		"a character of two bytes is not cut in half": {"wörld", 2, "w"},
		"a character that just fits is kept":          {"wörld", 3, "wö"},
		"nor one of three":                            {"€uro", 2, ""},
		"nor one of four":                             {"a🙂b", 4, "a"},
		"four bytes that just fit are kept":           {"a🙂b", 5, "a🙂"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Truncate(tc.text, tc.maxBytes); got != tc.want {
				t.Errorf("Truncate(%q, %d) is %q, want %q", tc.text, tc.maxBytes, got, tc.want)
			}
		})
	}
}

func TestPermanentMarksAnErrorAndHidesNothingOfIt(t *testing.T) {
	cause := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil)
	err := fmt.Errorf("creating: %w", Permanent(fmt.Errorf("Pod x: %w", cause)))
	if !IsPermanent(err) {
		t.Error("a wrapped permanent error is not permanent")
	}
	if !apierrors.IsInvalid(err) {
		t.Error("the API's own error is not found in the chain")
	}
	if want := "creating: Pod x: " + cause.Error(); err.Error() != want {
		t.Errorf("the error reads %q, want %q", err, want)
	}
	if IsPermanent(cause) {
		t.Error("an error is permanent that was not marked")
	}
	if IsPermanent(nil) {
		t.Error("no error is permanent")
	}
	if err := Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) is %v", err)
	}
	if err := errors.Join(errors.New("another"), Permanent(cause)); IsPermanent(err) {
		t.Error("a permanent error hides one that is retried")
	}
	if err := errors.Join(Permanent(errors.New("another")), Permanent(cause)); !IsPermanent(err) {
		t.Error("of permanent errors alone one is retried")
	}
}

func TestWhatAWatchErrorAdvises(t *testing.T) {
	machines := schema.GroupResource{Group: "useless.example", Resource: "machines"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a kind that is not installed": {apierrors.NewNotFound(machines, ""),
			"The API server does not serve machines.useless.example (any more): install its CustomResourceDefinition; retrying"},
		"a missing permission": {apierrors.NewForbidden(machines, "", nil),
			"No permission to list and watch machines.useless.example: bind the verbs list and watch to this account; retrying"},
		"credentials that are not valid": {apierrors.NewUnauthorized("expired"),
			"The API server does not accept our credentials: renew the kubeconfig or the ServiceAccount's token; retrying"},
		"a wrapped error":                  {fmt.Errorf("listing: %w", apierrors.NewUnauthorized("expired")), "The API server does not accept our credentials: renew the kubeconfig or the ServiceAccount's token; retrying"},
		"a version that is too old":        {apierrors.NewResourceExpired("old"), ""},
		"a server that is not reached":     {errors.New("connection refused"), ""},
		"a server that has too much to do": {apierrors.NewTooManyRequests("later", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := watchAdvice(machines, tc.err); got != tc.want {
				t.Errorf("the advice is %q, want %q", got, tc.want)
			}
		})
	}
}
