// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package blueprint

// allocationFactor is how much more may be allocated: with the race detector, a sync.Pool drops at random what is put into it, and the
// pools of regexp hold the machines that execute expressions.
const allocationFactor = 2
