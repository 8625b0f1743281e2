// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"millwright.dev/pkg/testing/testcluster"
)

// archivesVariable is the environment variable with the folder of the images, which hack/e2e-images.sh makes. Without it the tests are skipped.
const archivesVariable = "E2E_IMAGES"

// The images in the archives: two of Millwright and two of the app, which differ only in their version.
const (
	millwright1 = "millwright:e2e-1"
	millwright2 = "millwright:e2e-2"
	app1        = "millwright.dev/e2e/app:1"
	app2        = "millwright.dev/e2e/app:2"
)

func TestMain(m *testing.M) {
	testcluster.Main(m)
}

// TestMillwright tests the life of an installation, part by part.
func TestMillwright(t *testing.T) {
	archives := os.Getenv(archivesVariable)
	if archives == "" {
		t.Skip("needs a real node and images: make e2e runs it")
	}
	s := newSuite(t, testcluster.Start(t, testcluster.WithNode()))
	for _, archive := range []string{"millwright-1.tar", "millwright-2.tar", "app-1.tar", "app-2.tar"} {
		s.LoadImages(t, filepath.Join(archives, archive))
	}
	if !t.Run("installation", s.testInstallation) {
		return
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"ImmortalContainer", s.testImmortalContainer},
		{"HelloApp", s.testHelloApp},
		{"Machine", s.testMachine},
		{"CompositeController", s.testCompositeController},
		{"rolling update", s.testRollingSet},
		{"DecoratorController", s.testDecoratorController},
		{"related objects", s.testRelatedObjects},
		{"ActionSet", s.testActionSet},
		{"metrics", s.testMetrics},
		{"roles", s.testRoles},
		{"leader deleted", s.testLeaderDeleted},
		{"kubelet killed", s.testKubeletKilled},
		{"node lost", s.testNodeLost},
		{"upgrade", s.testUpgrade},
		{"removal", s.testRemoval},
	} {
		t.Run(part.name, part.run)
	}
}
