package images

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app")
	if err := os.WriteFile(path, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPackedImageHasTheBinaryAndRunsIt(t *testing.T) {
	for name, tc := range map[string]struct {
		image      Image
		file       string
		entrypoint []string
		user       string
	}{
		"by default, in the root directory and without rights": {Image{}, "app", []string{"/app"}, "65532:65532"},
		"as configured": {Image{Entrypoint: []string{"/bin/other", "--flag"}, User: "0"}, "bin/other", []string{"/bin/other", "--flag"}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "app.tar")
			tc.image.Name, tc.image.Binary = "example.com/app:1", binary(t)
			if err := Pack(tc.image, archive); err != nil {
				t.Fatal(err)
			}
			manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"example.com/app:1"}, manifest[0].RepoTags); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			packed, err := tarball.ImageFromPath(archive, nil)
			if err != nil {
				t.Fatal(err)
			}
			config, err := packed.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.entrypoint, config.Config.Entrypoint); diff != "" || config.Config.User != tc.user || config.OS != "linux" {
				t.Errorf("user %q, system %q, entrypoint (-want +got):\n%s", config.Config.User, config.OS, diff)
			}
			layers, err := packed.Layers()
			if err != nil || len(layers) != 1 {
				t.Fatalf("%d layers, %v", len(layers), err)
			}
			content, err := layers[0].Uncompressed()
			if err != nil {
				t.Fatal(err)
			}
			reader := tar.NewReader(content)
			header, err := reader.Next()
			if err != nil {
				t.Fatal(err)
			}
			program, err := io.ReadAll(reader)
			if err != nil || header.Name != tc.file || header.Mode != 0o755 || header.ModTime.Unix() != 0 || string(program) != "a program" {
				t.Errorf("file %s, mode %o, of %v, content %q, %v", header.Name, header.Mode, header.ModTime, program, err)
			}
		})
	}
}

func TestTheSameBinaryGivesTheSameArchive(t *testing.T) {
	file := binary(t)
	var archives [2][]byte
	for i := range archives {
		path := filepath.Join(t.TempDir(), "app.tar")
		if err := Pack(Image{Name: "example.com/app:1", Binary: file}, path); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = content
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("they differ")
	}
}

func TestPackErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		image Image
		want  string
	}{
		"no tag":                {Image{Name: "example.com/app", Binary: binary(t)}, "example.com/app"},
		"no binary":             {Image{Name: "example.com/app:1", Binary: "/missing"}, "/missing"},
		"a relative entrypoint": {Image{Name: "example.com/app:1", Binary: binary(t), Entrypoint: []string{"app"}}, `"app" is not an absolute path`},
	} {
		path := filepath.Join(t.TempDir(), "app.tar")
		if err := Pack(tc.image, path); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: there is an archive nevertheless", name)
		}
	}
}
