// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the object cache on a real API server, and measures its memory there.
package integration
