// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// user is any user except root. The Dockerfile has the same one.
	user = "65532:65532"

	certificatesFile = "ca-certificates.crt"
	certificatesPath = "etc/ssl/certs/ca-certificates.crt"
	binaryPath       = "millwright"
)

// buildIndex packs an image for each platform.
func buildIndex(o options) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range o.platforms {
		image, err := buildImage(o, platform)
		if err != nil {
			return nil, fmt.Errorf("packing the image for %s: %w", platform, err)
		}
		system, architecture, _ := strings.Cut(platform, "/")
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: system, Architecture: architecture}},
		})
	}
	return index, nil
}

func buildImage(o options, platform string) (v1.Image, error) {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, errors.New("a platform is a system and an architecture, as in linux/amd64")
	}
	certificates, err := os.ReadFile(filepath.Join(o.context, certificatesFile))
	if err != nil {
		return nil, hint(err)
	}
	binary, err := os.ReadFile(filepath.Join(o.context, system+"_"+architecture, binaryPath))
	if err != nil {
		return nil, hint(err)
	}
	// The certificates change less often than the binary, and so have a layer of their own.
	var layers []v1.Layer
	for _, file := range []file{{certificatesPath, 0o644, certificates}, {binaryPath, 0o755, binary}} {
		layer, err := file.layer(o)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = system, architecture
	config.Created = v1.Time{Time: o.created}
	config.Config = v1.Config{
		User:       user,
		WorkingDir: "/",
		Entrypoint: []string{"/" + binaryPath},
		Labels: map[string]string{
			"org.opencontainers.image.title":   "Millwright",
			"org.opencontainers.image.version": o.version,
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	size, err := compressedSize(image)
	if err != nil {
		return nil, err
	}
	if size > o.maxBytes {
		return nil, fmt.Errorf("it has %d bytes compressed, and at most %d are allowed: see what makes the binary large (go tool nm -size -sort size)", size, o.maxBytes)
	}
	return image, nil
}

// hint returns how to make what is missing.
func hint(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: make image-context builds it", err)
	}
	return err
}

// file of an image.
type file struct {
	path    string
	mode    int64
	content []byte
}

// layer has the file and its directories. All of it belongs to root, so that the process cannot change it.
func (f file) layer(o options) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for i, c := range f.path {
		if c != '/' {
			continue
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.path[:i+1], Mode: 0o755, ModTime: o.created}); err != nil {
			return nil, err
		}
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: o.created}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(f.content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// compressedSize of all layers, in bytes.
func compressedSize(image v1.Image) (size int64, err error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, err
	}
	for _, layer := range layers {
		layerSize, err := layer.Size()
		if err != nil {
			return 0, err
		}
		size += layerSize
	}
	return size, nil
}

// writeCertificates prints the roots that Mozilla trusts, as the Go project publishes them. They come with the module, so
// that the same sources have the same roots on every machine.
func writeCertificates(w io.Writer) error {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // trusted for some of their certificates only, which a file of roots cannot say
		}
		if err := pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	return nil
}
