// Package buildsh tests build.sh with a go command that compiles nothing: a first build takes minutes.
package buildsh

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// fakeGo pretends to compile 200 packages of 1 kB in four seconds, of which the first half takes as long as the second.
const fakeGo = `#!/usr/bin/env bash
set -o errexit -o nounset -o pipefail
case $1 in
env) case $2 in GOVERSION) echo go99.1 ;; GOCACHE) echo /the/cache ;; GOMODCACHE) echo /the/modules ;; esac ;;
mod) ;;
list) for ((i = 0; i < 200; i++)); do printf 'example.com/p%d\t%s\n' "$i" "$FAKE/p.go"; done ;;
build)
  echo "# a message that is no package" >&2
  for ((i = 0; i < 100; i++)); do echo "example.com/p$i" >&2; done
  if [ -n "${FAKE_FAILS:-}" ]; then
    while [ ! -e "$FAKE/reports" ]; do sleep 0.01; done
    echo "p.go:1:1: it does not compile" >&2
    exit 1
  fi
  sleep 2
  for ((i = 100; i < 200; i++)); do echo "example.com/p$i" >&2; done
  sleep 2
  while [ "$1" != -o ]; do shift; done
  echo >"$2"
  chmod +x "$2"
  ;;
*) echo "unexpected: go $*" >&2 && exit 1 ;;
esac
`

// fakeAwk is awk, but prints the progress of a build that fails a second late: the build fails meanwhile.
const fakeAwk = `#!/usr/bin/env bash
if [ -n "${FAKE_FAILS:-}" ] && [ "$1" = -F ] && [ "$3" = -v ]; then
  touch "$FAKE/reports"
  sleep 1
fi
PATH=${PATH#*:} exec awk "$@"
`

// tree makes a copy of what build.sh needs, and returns a function that runs it there.
func tree(t *testing.T) (bin string, run func(env ...string) (string, error)) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("build.sh needs bash")
	}
	root := t.TempDir()
	files := map[string]string{
		"fake/go":             fakeGo,
		"fake/awk":            fakeAwk,
		"fake/p.go":           strings.Repeat("x", 1000),
		"hack/cluster/go.mod": "module example.com/cluster\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubernetes v1.2.3\n)\n",
	}
	for _, script := range []string{"cluster/build.sh", "go-env.sh", "build-env.sh", "progress.sh"} {
		content, err := os.ReadFile(filepath.Join("../../..", script))
		if err != nil {
			t.Fatal(err)
		}
		files["hack/"+script] = string(content)
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "bin"), func(env ...string) (string, error) {
		cmd := exec.Command(filepath.Join(root, "hack/cluster/build.sh"))
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "fake")+":"+os.Getenv("PATH"), "FAKE="+filepath.Join(root, "fake"), "BUILD_INTERVAL=1")
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

func TestAFirstBuildExplainsItselfAndEstimatesTheRest(t *testing.T) {
	bin, run := tree(t)
	out, err := run()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`compiling 200 packages of Kubernetes v1\.2\.3 into bin/cluster, .*\n  etcd, kube-apiserver, `,
		`up to \d+ GiB: /the/cache, /the/modules\.`,
		`go clean -cache -modcache`,
		`(?m)^build\.sh: 200 of 200 packages compiled after \d+ s, now linking$`,
		`(?m)^build\.sh: built bin/cluster, Kubernetes v1\.2\.3$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	// The second half will take as long as the first; 5 s are added, for the link.
	half := regexp.MustCompile(`(?m)^build\.sh: 100 of 200 packages compiled after (\d+) s, about (\d+) s left$`).FindStringSubmatch(out)
	if half == nil {
		t.Fatalf("no estimate in:\n%s", out)
	}
	after, _ := strconv.Atoi(half[1])
	if left, _ := strconv.Atoi(half[2]); left != after+5 {
		t.Errorf("half of the work took %d s, and %d s are printed as left", after, left)
	}
	if target, err := os.Readlink(filepath.Join(bin, "kubectl")); target != "cluster" {
		t.Errorf("bin/kubectl leads to %q, %v", target, err)
	}
	if left, _ := filepath.Glob(filepath.Join(bin, ".*")); left != nil {
		t.Errorf("it leaves %v", left)
	}
	if out, err := run(); err != nil || out != "" {
		t.Errorf("there is nothing to do, and it prints %q, %v", out, err)
	}
}

// The build fails while a line of progress is being printed: nothing comes after the error.
func TestAFailedBuildPrintsTheMessagesOfGoAlone(t *testing.T) {
	bin, run := tree(t)
	out, err := run("FAKE_FAILS=yes")
	if err == nil || !strings.Contains(out, "p.go:1:1: it does not compile\n") || !strings.HasSuffix(out, "build.sh: go build failed\n") || strings.Contains(out, "example.com/p1") {
		t.Errorf("%v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(bin, "*")); left != nil {
		t.Errorf("it leaves %v", left)
	}
}
