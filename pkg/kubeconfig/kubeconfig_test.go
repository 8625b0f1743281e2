// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/ktesting"
)

// outside makes the environment that of a machine that is no Pod, and returns the path of the kubeconfig in its home, which does not exist.
func outside(t *testing.T) string {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "")
	home, before := filepath.Join(t.TempDir(), "config"), clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = home
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = before })
	return home
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "kubeconfig")
	}
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"+content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// named is a kubeconfig whose only context has a name and a server of that name.
func named(name string) string {
	return "current-context: " + name + "\ncontexts: [{name: " + name + ", context: {cluster: " + name + "}}]\n" +
		"clusters: [{name: " + name + ", cluster: {server: \"https://" + name + ".example.com\"}}]\n"
}

func TestTheClusterIsFoundAsKubectlFindsIt(t *testing.T) {
	home := outside(t)
	server := func(path, want string) {
		t.Helper()
		cluster, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := cluster.Config.Host; got != "https://"+want+".example.com" || cluster.Context != want || cluster.InPod() {
			t.Errorf("server %s, context %q, in a Pod %t; want %s", got, cluster.Context, cluster.InPod(), want)
		}
	}
	write(t, home, named("home"))
	server("", "home")
	variable := write(t, "", named("variable"))
	t.Setenv("KUBECONFIG", variable)
	server("", "variable")
	// Of several files, the first that has a current context wins.
	t.Setenv("KUBECONFIG", strings.Join([]string{"/nowhere/config", write(t, "", "current-context: variable"), variable}, string(os.PathListSeparator)))
	server("", "variable")
	server(write(t, "", named("flag")), "flag")
}

func TestTheClusterIsLogged(t *testing.T) {
	outside(t)
	path := write(t, "", named("prod"))
	t.Setenv("KUBECONFIG", path)
	cluster, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	cluster.Log(logger)
	got := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, want := range []string{`context="prod"`, `server="https://prod.example.com"`, path} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in the log: %s", want, got)
		}
	}
}

func TestAWrittenFileHasTheContextAlone(t *testing.T) {
	outside(t)
	users := "users: [{name: me, user: {token: secret}}, {name: you, user: {token: yours}}]\n"
	t.Setenv("KUBECONFIG", write(t, "", "current-context: dev\ncontexts: [{name: dev, context: {cluster: prod, user: me}}]\n"+users)+
		string(os.PathListSeparator)+write(t, "", named("prod")))
	cluster, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "written")
	if err := cluster.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "yours") {
		t.Errorf("it has other credentials:\n%s", content)
	}
	again, err := Load(path)
	if err != nil || again.Config.Host != "https://prod.example.com" || again.Config.BearerToken != "secret" {
		t.Errorf("%+v, %v", again, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	const choose = ": choose a context (kubectl config use-context NAME), or name a kubeconfig file by --kubeconfig"
	const set = ": set KUBECONFIG, or name a kubeconfig file by --kubeconfig"
	const correct = ": correct KUBECONFIG, unset it to use ~/.kube/config, or name a kubeconfig file by --kubeconfig"
	home := outside(t)
	empty := write(t, "", "")
	lost := write(t, "", "current-context: nope\n")
	broken := write(t, "", "clusters: [\n")
	for name, tc := range map[string]struct{ path, variable, want string }{
		"nothing at all": {want: "no cluster to work on: this is not a Pod, and stat " + home + ": no such file or directory" + set},
		"KUBECONFIG names no file": {variable: "/nowhere/a" + string(os.PathListSeparator) + "/nowhere/b",
			want: "no cluster to work on: this is not a Pod, and KUBECONFIG names no file that exists: stat /nowhere/a: no such file or directory, " +
				"stat /nowhere/b: no such file or directory" + correct},
		"KUBECONFIG has no context": {variable: empty,
			want: "no cluster to work on: this is not a Pod, and current-context is not set in KUBECONFIG=" + empty + choose},
		"KUBECONFIG has a context that is missing": {variable: lost, want: "reading KUBECONFIG=" + lost + ": context was not found for specified context: nope; name another kubeconfig file by --kubeconfig"},
		"KUBECONFIG is no kubeconfig":              {variable: broken, want: "reading KUBECONFIG=" + broken + ": error loading config file \"" + broken + "\": "},
		"--kubeconfig names no file":               {path: "/nowhere/c", want: "reading the file that --kubeconfig names: stat /nowhere/c: no such file or directory"},
		"--kubeconfig has no context":              {path: empty, want: "--kubeconfig: " + empty + " names no cluster: set its current-context"},
		"--kubeconfig has a missing context":       {path: lost, want: "--kubeconfig: " + lost + ": context was not found for specified context: nope"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.variable)
			if _, err := Load(tc.path); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestAPodWithoutATokenReportsItsAccount(t *testing.T) {
	outside(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if _, err := Load(""); err == nil || !strings.HasPrefix(err.Error(), "reading the ServiceAccount of this Pod: open /var/run/secrets/") {
		t.Errorf("got %v", err)
	}
	t.Setenv("KUBECONFIG", write(t, "", named("dev")))
	if cluster, err := Load(""); err != nil || cluster.Context != "dev" {
		t.Errorf("without a ServiceAccount, KUBECONFIG is used: %+v, %v", cluster, err)
	}
}
