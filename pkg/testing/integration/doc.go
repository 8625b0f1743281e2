// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration has tests of what users see: the controllers as the manager runs them, on a real control plane with a simulated
// node. Nothing that the API server does is mocked. Names of files and tests begin with the kind: -run ActionSet, Composite, Farm, HelloApp,
// ImmortalContainer or Machine chooses the tests of one kind.
package integration
