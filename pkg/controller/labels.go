// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

const (
	// LabelManagedBy and ManagedBy mark what our controllers make of the built-in kinds: informers of those see nothing else.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "millwright"
	// ManagedSelector selects what carries the mark.
	ManagedSelector = LabelManagedBy + "=" + ManagedBy
)
