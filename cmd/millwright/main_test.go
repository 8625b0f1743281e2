// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
	logsapi "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) {
	// The logs are set up once per process, and tests set them up again.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")) // runs as long as the process
}

func TestMistakesAreReportedInOneLine(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "/nowhere/config")
	const noCluster = "Error: no cluster to work on: this is not a Pod, and KUBECONFIG names no file that exists: stat /nowhere/config: no such file or directory: " +
		"correct KUBECONFIG, unset it to use ~/.kube/config, or name a kubeconfig file by --kubeconfig"
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"frobnicate"}, exitUsage, "Error: unknown command \"frobnicate\"; see 'millwright --help'"},
		{[]string{"--foo"}, exitUsage, "Error: unknown flag: --foo; see 'millwright --help'"},
		{[]string{"controllers", "--foo"}, exitUsage, "Error: unknown flag: --foo; see 'millwright controllers --help'"},
		{[]string{"--zap-log-level=4"}, exitUsage, "Error: unknown flag: --zap-log-level: flags of Metacontroller are for 'millwright controllers'; see 'millwright --help'"},
		{[]string{"controllers", "--zap-log-level=error", "-apply-strategy=x", "-apply-strategy-ssa-field-manager=", "--workers=0"}, exitUsage, "Error: invalid --zap-log-level \"error\": must be debug, info or a number, which is that of -v: what info logs is always logged; " +
			"invalid --workers \"0\": must be at least 1; invalid --apply-strategy \"x\": must be dynamic-apply or server-side-apply; " +
			"invalid --apply-strategy-ssa-field-manager \"\": must have 1 to 128 printable characters; see 'millwright controllers --help'"},
		{[]string{"controllers", "-namespace=x"}, exitUsage, "Error: unknown flag: -namespace=x: flags are written with two dashes: --namespace=x; see 'millwright controllers --help'"},
		{[]string{"controllers", "-hook-workers", "5"}, exitUsage, "Error: unknown flag: -hook-workers: flags are written with two dashes: --hook-workers; see 'millwright controllers --help'"},
		{[]string{"controllers", "-x"}, exitUsage, "Error: unknown shorthand flag: 'x' in -x; see 'millwright controllers --help'"},
		{[]string{"completion", "tcsh"}, exitUsage, "Error: invalid shell \"tcsh\": must be one of bash, fish, powershell, zsh; see 'millwright completion --help'"},
		{[]string{"controllers", "foo"}, exitUsage, "Error: 'millwright controllers' takes no arguments, and was given \"foo\"; see 'millwright controllers --help'"},
		{[]string{"controllers", "--workers=x"}, exitUsage, "Error: invalid argument \"x\" for \"--workers\" flag: strconv.ParseInt: parsing \"x\": invalid syntax; see 'millwright controllers --help'"},
		{[]string{"controllers", "--workers=0"}, exitUsage, "Error: invalid --workers \"0\": must be at least 1; see 'millwright controllers --help'"},
		{[]string{"controllers", "--logging-format=xml"}, exitUsage, "Error: format: Invalid value: \"xml\": Unsupported log format; see 'millwright controllers --help'"},
		{[]string{"controllers"}, exitFailed, noCluster},
		{[]string{"apiserver", "--foo"}, exitUsage, "Error: unknown flag: --foo; see 'millwright apiserver --help'"},
		{[]string{"apiserver", "foo"}, exitUsage, "Error: 'millwright apiserver' takes no arguments, and was given \"foo\"; see 'millwright apiserver --help'"},
		{[]string{"apiserver", "--llama-storage=etcd"}, exitUsage, "Error: invalid --llama-storage \"etcd\": must be records or memory; see 'millwright apiserver --help'"},
		{[]string{"apiserver", "--serving-secret=farm"}, exitUsage, "Error: invalid --serving-secret \"farm\": must be namespace/name, as in millwright-system/farm-operator-serving; see 'millwright apiserver --help'"},
		{[]string{"apiserver"}, exitFailed, noCluster},
		{[]string{"version", "-o", "xml"}, exitUsage, "Error: invalid --output \"xml\": must be json or yaml; see 'millwright version --help'"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if got := stderr.String(); got != tc.want+"\n" || stdout.Len() > 0 {
				t.Errorf("got  %swant %s\nand on standard output: %s", got, tc.want, stdout.String())
			}
		})
	}
}

func TestHelpNamesEveryControllerAndGroupsTheFlags(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"controllers", "--help"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, standard error %s", code, stderr.String())
	}
	for _, want := range []string{"immortalcontainer", "Controllers flags:", "Leader election flags:", "--kubeconfig", "--logging-format"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("it does not contain %q:\n%s", want, stdout.String())
		}
	}
}

func TestHelpOfAPIServer(t *testing.T) {
	for _, args := range [][]string{{"apiserver", "--help"}, {"apiserver", "-h"}, {"help", "apiserver"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, standard error %s", args, code, stderr.String())
		}
		for _, want := range []string{"Farm flags:", "--llama-storage", "Serving flags:", "--secure-port", "(default 3000)", "--serving-secret", "--logging-format"} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%q: it does not contain %q:\n%s", args, want, stdout.String())
			}
		}
	}
	cmd, _, err := newRootCommand().Find([]string{"apiserver"})
	if err != nil || cmd.Flags().Lookup("llama-storage") != nil {
		t.Errorf("the other subcommands pay for its flags: %v", err)
	}
}

func TestVersion(t *testing.T) {
	version = "v1.2.3"
	defer func() { version = "" }()
	decode := map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(text []byte, into any) error { return yaml.Unmarshal(text, into) },
	}
	for format, decode := range decode {
		var stdout bytes.Buffer
		if code := run(t.Context(), []string{"version", "-o", format}, &stdout, &stdout); code != 0 {
			t.Fatalf("exit code %d: %s", code, stdout.String())
		}
		var info versionInfo
		if err := decode(stdout.Bytes(), &info); err != nil {
			t.Fatalf("%v: %s", err, stdout.String())
		}
		if info.Version != "v1.2.3" || info.GoVersion != runtime.Version() || info.Platform != runtime.GOOS+"/"+runtime.GOARCH {
			t.Errorf("%s: %+v", format, info)
		}
	}
	var stdout bytes.Buffer
	run(t.Context(), []string{"version"}, &stdout, &stdout)
	if got := stdout.String(); !strings.HasPrefix(got, "millwright v1.2.3 (go") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
	var byFlag bytes.Buffer
	if code := run(t.Context(), []string{"--version"}, &byFlag, &byFlag); code != 0 || byFlag.String() != stdout.String() {
		t.Errorf("exit code %d, --version prints %q, version %q", code, byFlag.String(), stdout.String())
	}
}

func TestAVersionIsAlwaysKnown(t *testing.T) {
	if buildVersion().Version == "" {
		t.Error("it is empty")
	}
}
