// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the watches of credentials on a real API server, with an account that has only the rights that the error
// messages ask for.
package integration
