// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"millwright.dev/pkg/testing/fakeapi"
	"millwright.dev/pkg/testing/testcluster"
)

// What unit tests take for the behaviour of the API server is that of a real one. The same script runs on the fake one in
// pkg/testing/fakeapi.
func TestFakeAPI(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Shared(t)
	fakeapi.TestConformance(t, cluster.Config(), cluster.Namespace(t))
}
