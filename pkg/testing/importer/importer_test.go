// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"millwright.dev/pkg/testing/testcluster"
)

const root = "../../.."

func TestMain(m *testing.M) {
	testcluster.Main(m, testcluster.WithCRDs("manifests/00-crds"))
}

// program returns the first Go program in the file.
func program(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```go\n// Command ")
	code, _, ended := strings.Cut(after, "```\n")
	if !found || !ended {
		t.Fatalf("%s has no program, which begins with: // Command", path)
	}
	return "// Command " + code
}

// run a go command, without the network: all that the program needs is in the module cache, because this module needs it too.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := exec.Command("go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off", "CGO_ENABLED=0")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

func TestProgramOfTheGuide(t *testing.T) {
	millwright, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.go": program(t, filepath.Join(root, "pkg/README.md")),
		"go.mod":  "module example.com/apps\n\ngo 1.26.0\n\nrequire millwright.dev v0.0.0\n\nreplace millwright.dev => " + millwright + "\n",
		"go.sum":  string(sums),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, "build", "-o", "apps", ".")

	t.Run("it needs what clients need", func(t *testing.T) {
		for dependency := range strings.SplitSeq(run(t, dir, "list", "-deps", "."), "\n") {
			for _, server := range []string{"k8s.io/apiserver", "k8s.io/component-base", "github.com/prometheus/", "go.etcd.io/", "millwright.dev/pkg/controller"} {
				if strings.HasPrefix(dependency, server) {
					t.Errorf("it compiles %s", dependency)
				}
			}
		}
	})

	t.Run("it works on a cluster", func(t *testing.T) {
		cluster := testcluster.Shared(t)
		command := exec.Command(filepath.Join(dir, "apps"))
		command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
		output, err := command.CombinedOutput()
		if want := "size 1\nsize 3\n"; err != nil || string(output) != want {
			t.Fatalf("it printed %q, %v; want %q", output, err, want)
		}
		if got := cluster.Kubectl(t, "get", "helloapp", "shop", "--namespace", "default", "--output", "jsonpath={.spec.image} {.spec.size}"); got != "nginx:latest 3" {
			t.Errorf("got %q", got)
		}
	})
}
