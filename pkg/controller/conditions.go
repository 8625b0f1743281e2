// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxConditionMessage is the limit of metav1.Condition's schema, in bytes to be on the safe side.
const maxConditionMessage = 32768

// SetCondition sets the condition in the list, with the observed generation. Its lastTransitionTime is now if its status has changed,
// and kept otherwise.
func SetCondition(
	conditions *[]metav1.Condition, now time.Time, generation int64,
	conditionType string, status metav1.ConditionStatus, reason, message string,
) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             reason,
		Message:            Truncate(WithoutPorts(message), maxConditionMessage),
		ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(now),
	})
}

// Truncate cuts text to at most maxBytes bytes, at a character's boundary.
func Truncate(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	for maxBytes > 0 && text[maxBytes]&0xC0 == 0x80 {
		maxBytes--
	}
	return text[:maxBytes]
}
