// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"millwright.dev/pkg/testing/fakeapi"
	"millwright.dev/pkg/testing/testcluster"
)

// The conformance test of the fake API server that unit tests use (pkg/testing/fakeapi) also runs on a real API server.
func TestFakeAPI(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Shared(t)
	fakeapi.TestConformance(t, cluster.Config(), cluster.Namespace(t))
}
