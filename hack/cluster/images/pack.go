// Package images makes images of static binaries, and brings images into the containerd of a node, without a registry and without a
// container engine.
package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// DefaultUser is a user without rights, by number: that is what runAsNonRoot can check.
const DefaultUser = "65532:65532"

// Image describes an image with one file.
type Image struct {
	// Name is the full name with a tag, such as example.com/app:1.
	Name string
	// Binary is the file, which has to be linked statically: there is nothing else in the image.
	Binary string
	// Entrypoint is the command line, whose first word is where the binary is in the image. The default is the name of the
	// binary in the root directory.
	Entrypoint []string
	// User is "uid" or "uid:gid". The default is DefaultUser.
	User string
}

// Pack writes the image as an archive in the format of "docker save" to a file. The same binary gives the same image.
func Pack(image Image, path string) error {
	if err := pack(image, path); err != nil {
		return fmt.Errorf("packing image %s: %w", image.Name, err)
	}
	return nil
}

func pack(image Image, path string) error {
	tag, err := name.NewTag(image.Name, name.StrictValidation)
	if err != nil {
		return err
	}
	if image.User == "" {
		image.User = DefaultUser
	}
	if len(image.Entrypoint) == 0 {
		image.Entrypoint = []string{"/" + filepath.Base(image.Binary)}
	}
	if !filepath.IsAbs(image.Entrypoint[0]) {
		return fmt.Errorf("the entrypoint %q is not an absolute path", image.Entrypoint[0])
	}
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		RootFS:       v1.RootFS{Type: "layers"},
		Config:       v1.Config{Entrypoint: image.Entrypoint, User: image.User, WorkingDir: "/", Env: []string{"PATH=/"}},
	})
	if err != nil {
		return err
	}
	layer, err := layerOf(image.Binary, image.Entrypoint[0])
	if err != nil {
		return err
	}
	packed, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(path, tag, packed)
}

// layerOf makes a layer with one executable file. It is not compressed: that would take longer than anything that is done with it.
func layerOf(file, path string) (v1.Layer, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	err = writer.WriteHeader(&tar.Header{Name: path[1:], Mode: 0o755, Size: int64(len(content)), ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = writer.Write(content)
	}
	if err := errors.Join(err, writer.Close()); err != nil {
		return nil, err
	}
	return static.NewLayer(archive.Bytes(), types.DockerUncompressedLayer), nil
}
