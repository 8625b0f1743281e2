// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustercheck tests that make checks the cluster before it compiles anything.
package clustercheck

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl answers as the real one does for a kubeconfig without a context, with one that names no server that runs, and with one that works.
const kubectl = `#!/bin/sh
case "$KUBECONFIG $*" in
*noContext*" config current-context"|*/nonexistent*" config current-context") echo "error: current-context is not set" >&2; exit 1 ;;
*" config current-context") echo dev ;;
*" config view --minify"*) echo "refused: $(basename "$KUBECONFIG")" ;;
*" get "*) grep -q refused.*refuses "$2" && echo "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?" >&2 && exit 1 ;;
esac
exit 0
`

// makes runs make with a go that only leaves a trace, unless it is asked for the flags of the user. It returns what make prints, its success, and
// whether go was called.
func makes(t *testing.T, kubeconfig string, arguments ...string) (output string, succeeds, compiles bool) {
	t.Helper()
	bin, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	for name, script := range map[string]string{"go": "#!/bin/sh\n[ \"$*\" = \"env GOFLAGS\" ] || touch " + trace + "\nexit 1\n", "kubectl": kubectl} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil { //nolint:gosec // it is executed
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "make", append([]string{"--directory=../.."}, arguments...)...)
	command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "MILLWRIGHT_LOCAL_DIR="+t.TempDir(), "MAKEFLAGS=", "CLUSTER=")
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	succeeds = command.Run() == nil
	_, err := os.Stat(trace)
	return printed.String(), succeeds, err == nil
}

func TestTheClusterIsCheckedBeforeAnythingIsCompiled(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noContext, refuses := file("noContext"), file("refuses")
	for _, tc := range []struct {
		arguments  string
		kubeconfig string
		want       string
	}{
		{"run CLUSTER=nonsense", "", "invalid CLUSTER=nonsense: must be empty, for the local cluster, or current"},
		{"install CLUSTER=nonsense", "", "invalid CLUSTER=nonsense"},
		{"deploy CLUSTER=current", "/nonexistent", "error: stat /nonexistent: no such file or directory\n"},
		{"run CLUSTER=current", noContext, "error: current-context is not set\nCLUSTER=current is the current context of " + noContext + ". Choose one: kubectl config use-context NAME\n"},
		{"run CLUSTER=current", refuses, "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\nThat is the server of context dev.\n"},
		{"uninstall CLUSTER=current", refuses, "The connection to the server 127.0.0.1:1 was refused"},
		{"install", refuses, "/cluster/admin.kubeconfig: no such file or directory\nThere is no local cluster yet. Start it in another terminal: make cluster"},
		{"uninstall", "", "There is no local cluster yet."},
		{"deploy", "", "There is no local cluster yet."},
		{"undeploy", "", "There is no local cluster yet."},
	} {
		t.Run(strings.ReplaceAll(tc.arguments, "=", " ")+" "+filepath.Base(tc.kubeconfig), func(t *testing.T) {
			output, succeeds, compiles := makes(t, tc.kubeconfig, strings.Fields(tc.arguments)...)
			if succeeds || compiles || !strings.Contains(output, tc.want) {
				t.Errorf("succeeds %t, compiles %t, want an error with %q, got\n%s", succeeds, compiles, tc.want, output)
			}
		})
	}
	for _, arguments := range []string{"run", "run -j4 CLUSTER=current"} {
		if output, _, compiles := makes(t, file("works"), strings.Fields(arguments)...); !compiles || strings.Contains(output, "luster") {
			t.Errorf("make %s does not build: %s", arguments, output)
		}
	}
}

func TestHelpListsWhatOtherOperatorsHave(t *testing.T) {
	output, _, _ := makes(t, "", "help")
	for _, target := range []string{"manifests", "generate", "fmt", "vet", "lint", "test", "e2e", "build", "run", "docker-build", "docker-push", "build-installer",
		"install", "uninstall", "deploy", "undeploy"} {
		if !strings.Contains(output, "\n  make "+target+" ") {
			t.Errorf("make help does not list %s:\n%s", target, output)
		}
	}
	if output, succeeds, compiles := makes(t, "", "manifests"); succeeds || !compiles || strings.Contains(output, "Nothing to be done") {
		t.Errorf("make manifests generates nothing: %s", output)
	}
}
