// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"testing"

	"millwright.dev/pkg/testing/testcluster"
)

func TestMain(m *testing.M) {
	testcluster.Main(m, testcluster.WithCRDs("manifests/00-crds"), testcluster.WithCRDs("pkg/testing/perturbation/testdata"),
		testcluster.WithKeptNamespaces())
}
