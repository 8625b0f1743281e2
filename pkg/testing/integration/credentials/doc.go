// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the watches of credentials on a real API server, by an account that has no rights but those it is
// told to need.
package integration
