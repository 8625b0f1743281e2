// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration has the tests of recordstore on a real control plane.
package integration
