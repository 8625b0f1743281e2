// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"millwright.dev/pkg/testing/testcluster"
)

// archivesVariable is the environment variable that names the folder of the images, which hack/e2e.sh makes. Without it there is
// nothing to test with.
const archivesVariable = "E2E_IMAGES"

// The images in the archives: two versions of Millwright, which differ in nothing else, and two of what the tests run.
const (
	millwright1 = "millwright:e2e-1"
	millwright2 = "millwright:e2e-2"
	app1        = "millwright.dev/e2e/app:1"
	app2        = "millwright.dev/e2e/app:2"
)

func TestMain(m *testing.M) {
	testcluster.Main(m)
}

// TestMillwright is the life of a cluster with Millwright.
func TestMillwright(t *testing.T) {
	archives := os.Getenv(archivesVariable)
	if archives == "" {
		t.Skip("needs a real node and images: make e2e runs it")
	}
	s := newSuite(t, testcluster.Start(t, testcluster.WithNode()))
	for _, archive := range []string{"millwright-1.tar", "millwright-2.tar", "app-1.tar", "app-2.tar"} {
		s.LoadImages(t, filepath.Join(archives, archive))
	}
	if !t.Run("one command installs it", s.testInstallation) {
		return
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"an ImmortalContainer comes back from whatever ends it", s.testImmortalContainer},
		{"a HelloApp answers and scales and rolls", s.testHelloApp},
		{"a Machine keeps its pace", s.testMachine},
		{"a CompositeController works as its sample says", s.testCompositeController},
		{"ActionSets back up and restore as their samples say", s.testActionSet},
		{"metrics are for those who may read them", s.testMetrics},
		{"users with the roles edit and view have what these say", s.testRoles},
		{"another leads when the leader is deleted", s.testLeaderDeleted},
		{"the end of kubelet replaces no Pod", s.testKubeletKilled},
		{"on a lost node there are never two Pods", s.testNodeLost},
		{"an upgrade under load loses nothing and replaces no Pod", s.testUpgrade},
		{"undeploy leaves what users own", s.testRemoval},
	} {
		t.Run(part.name, part.run)
	}
}
