package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutTheProgramOfANodeItsBuildIsNamed(t *testing.T) {
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "cluster")
	if err := os.WriteFile(alone, content, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(alone, "image", "pack", "--name", "example.com/app:1", "app", "app.tar").CombinedOutput()
	want := "cluster: the program of a real node is missing: run hack/cluster/build.sh node (" + alone + "-node: no such file or directory)\n"
	if err == nil || string(out) != want {
		t.Errorf("got %v, want %q:\n%s", err, want, out)
	}
}

func TestTheVersionNamesWhatTheBuildHas(t *testing.T) {
	out, err := exec.Command(binary, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "(control plane and kubectl)\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
