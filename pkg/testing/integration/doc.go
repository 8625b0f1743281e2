// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests what users meet: the controllers as the manager runs them, on a real control plane with a
// simulated node. Nothing that the API server does is mocked. It has no code but tests.
package integration
