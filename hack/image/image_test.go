// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// buildContext has a binary of its own for each platform.
func buildContext(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ca-certificates.crt"), []byte("roots"))
	write(t, filepath.Join(dir, "linux_amd64", "millwright"), []byte("binary for amd64"))
	write(t, filepath.Join(dir, "linux_arm64", "millwright"), []byte("binary for arm64"))
	return dir
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// pack runs the command and returns the image index in the archive that it wrote, and what it printed.
func pack(t *testing.T, context string, flags ...string) (v1.ImageIndex, string) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "image.tar")
	var stdout, stderr bytes.Buffer
	args := append([]string{"--context", context, "--version", "v1.2.3", "--created", "1000000000", "--output", output}, flags...)
	if err := run(t.Context(), append(args, "example.com/millwright:v1.2.3"), &stdout, &stderr); err != nil {
		t.Fatal(err, stderr.String())
	}
	index, err := layout.ImageIndexFromPath(untar(t, output))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["io.containerd.image.name"] != "example.com/millwright:v1.2.3" {
		t.Fatalf("the archive has %+v, want the one image that was named", manifest.Manifests)
	}
	packed, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return packed, stdout.String()
}

func untar(t *testing.T, path string) string {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	dir := t.TempDir()
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, filepath.FromSlash(header.Name)), content)
	}
}

func imageFor(t *testing.T, index v1.ImageIndex, architecture string) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		if m.Platform.Architecture == architecture && m.Platform.OS == "linux" {
			image, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
	}
	t.Fatalf("there is no image for %s in %+v", architecture, manifest.Manifests)
	return nil
}

func TestImageContents(t *testing.T) {
	index, _ := pack(t, buildContext(t))
	for _, architecture := range []string{"amd64", "arm64"} {
		image := imageFor(t, index, architecture)
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/millwright"}) ||
			config.Architecture != architecture || c.Labels["org.opencontainers.image.version"] != "v1.2.3" || config.Created.Unix() != 1000000000 {
			t.Errorf("%s: the config is %+v", architecture, config)
		}
		files := map[string]string{}
		for archive := tar.NewReader(mutate.Extract(image)); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			if header.Typeflag == tar.TypeReg {
				files[header.Name] = fmt.Sprintf("%o %d:%d %s", header.Mode, header.Uid, header.Gid, content)
			}
		}
		want := map[string]string{
			"millwright":                        "755 0:0 binary for " + architecture,
			"etc/ssl/certs/ca-certificates.crt": "644 0:0 roots",
		}
		if fmt.Sprint(files) != fmt.Sprint(want) {
			t.Errorf("%s: the files are %v, want %v", architecture, files, want)
		}
	}
}

func TestAShortNameIsWrittenAsKubeletReadsIt(t *testing.T) {
	output := filepath.Join(t.TempDir(), "image.tar")
	args := []string{"--context", buildContext(t), "--version", "v1", "--created", "1", "--output", output, "millwright:v1"}
	if err := run(t.Context(), args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(untar(t, output))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.ParseDockerRef("millwright:v1") // as the CRI plugin of containerd does
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != want.String() {
		t.Errorf("the image is named %s, and kubelet looks for %s", got, want)
	}
}

func TestTheSameContextMakesTheSameDigest(t *testing.T) {
	context := buildContext(t)
	digest := func() v1.Hash {
		index, _ := pack(t, context)
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	first := digest()
	if err := os.Chtimes(filepath.Join(context, "linux_amd64", "millwright"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if second := digest(); second != first {
		t.Errorf("packed again, the digest is %s, not %s", second, first)
	}
	write(t, filepath.Join(context, "linux_amd64", "millwright"), []byte("another binary"))
	if third := digest(); third == first {
		t.Error("another binary has the same digest")
	}
}

func TestAnImageThatIsTooLargeIsRefused(t *testing.T) {
	context := buildContext(t)
	noise := make([]byte, 10_000) // does not compress
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	write(t, filepath.Join(context, "linux_arm64", "millwright"), noise)
	err := run(t.Context(), []string{"--context", context, "--max-bytes", "9000", "--output", filepath.Join(t.TempDir(), "x.tar"), "m:v1"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "linux/arm64") || !strings.Contains(err.Error(), "9000") {
		t.Errorf("got %v", err)
	}
}

func TestAPushedImageIsTheOneThatWasWritten(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	context := buildContext(t)
	reference := strings.TrimPrefix(server.URL, "http://") + "/millwright:v1.2.3"
	written, _ := pack(t, context)
	err := run(t.Context(), []string{"--context", context, "--version", "v1.2.3", "--created", "1000000000", "--push", reference}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Index(parsed)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := written.Digest()
	if got, _ := pushed.Digest(); got != want {
		t.Errorf("pushed %s, written %s", got, want)
	}
}

func TestMistakesAreReportedWithAdvice(t *testing.T) {
	context := buildContext(t)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no name":         {[]string{"--push"}, "one REFERENCE"},
		"a bad name":      {[]string{"--push", "Millwright:v1"}, "the name of the image"},
		"nothing to do":   {[]string{"m:v1"}, "--output"},
		"a bad platform":  {[]string{"--context", context, "--platforms", "amd64", "--push", "m:v1"}, "linux/amd64"},
		"no such binary":  {[]string{"--context", context, "--platforms", "linux/riscv64", "--push", "m:v1"}, "make image-context"},
		"no such context": {[]string{"--context", t.TempDir(), "--push", "m:v1"}, "make image-context"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), tc.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to say %q", err, tc.want)
			}
		})
	}
}

func TestTheRootsAreWhatAProgramCanRead(t *testing.T) {
	var roots bytes.Buffer
	if err := run(t.Context(), []string{"certificates"}, &roots, io.Discard); err != nil {
		t.Fatal(err)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(roots.Bytes()) || strings.Count(roots.String(), "BEGIN CERTIFICATE") < 100 {
		t.Errorf("%d bytes of roots cannot be read", roots.Len())
	}
}
