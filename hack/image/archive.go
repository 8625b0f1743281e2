// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive writes the index as an OCI image layout (https://github.com/opencontainers/image-spec/blob/main/image-layout.md)
// in a tar archive. The file appears when it is complete.
func writeArchive(path string, image name.Reference, index v1.ImageIndex) (err error) {
	// What Docker, containerd and kubelet make of a short name is not quite what go-containerregistry makes of it.
	named, err := reference.ParseNormalizedNamed(image.String())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	contents := filepath.Join(dir, "layout")
	files, err := layout.Write(contents, empty.Index)
	if err != nil {
		return err
	}
	err = files.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": image.Identifier(),
		"io.containerd.image.name":          named.String(),
	}))
	if err != nil {
		return err
	}
	archive := filepath.Join(dir, "archive")
	if err := writeTar(archive, contents); err != nil {
		return err
	}
	return os.Rename(archive, path)
}

// writeTar archives the directory, in the order of names.
func writeTar(path, dir string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return addToTar(w, dir, path)
	})
	return errors.Join(err, w.Close())
}

func addToTar(w *tar.Writer, dir, path string) (err error) {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}
