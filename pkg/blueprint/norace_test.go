// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package blueprint

// allocationFactor is how much more may be allocated: without the race detector, nothing.
const allocationFactor = 1
