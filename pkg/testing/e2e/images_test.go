// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// loadRoot loads an image with a root file system that hack/e2e-images.sh has made to the node, under each of the names. The test is skipped if
// hack/e2e-images.sh has not made it.
func (s *suite) loadRoot(t *testing.T, what string, with v1.Config, names ...string) {
	t.Helper()
	root := filepath.Join(os.Getenv(archivesVariable), what+"-root.tar")
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("hack/e2e-images.sh found no packages to make an image with %s of", what)
	}
	layer, err := tarball.LayerFromFile(root)
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	with.Env = append(with.Env, "PATH=/usr/bin")
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, with
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	archive, images := filepath.Join(t.TempDir(), "images.tar"), map[name.Reference]v1.Image{}
	for _, as := range names {
		reference, err := name.ParseReference(as)
		if err != nil {
			t.Fatal(err)
		}
		images[reference] = image
	}
	if err := tarball.MultiRefWriteToFile(archive, images); err != nil {
		t.Fatal(err)
	}
	s.LoadImages(t, archive)
}
