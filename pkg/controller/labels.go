// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

const (
	// LabelManagedBy and ManagedBy mark the objects of built-in kinds that our controllers create: informers of those kinds see no others.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "millwright"
	// ManagedSelector selects the objects with that label.
	ManagedSelector = LabelManagedBy + "=" + ManagedBy
)
