// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"millwright.dev/pkg/kubeconfig"
)

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags []string
		want  string // in the error; "" if there is to be none
	}{
		{name: "the defaults", flags: nil},
		{name: "serving on all interfaces", flags: []string{"--serving-address=:8080"}},
		{name: "serving nothing", flags: []string{"--serving-address=0"}},
		{name: "serving on IPv6", flags: []string{"--serving-address=[::1]:0"}},
		{name: "no worker", flags: []string{"--workers=0"}, want: `invalid --workers "0": must be at least 1`},
		{name: "an unknown controller", flags: []string{"--controllers=nope"}, want: `invalid --controllers "nope": must be '*' or one of ` + strings.Join(names(Descriptors()), ", ")},
		{name: "a namespace that is none", flags: []string{"--namespace=A"}, want: `invalid --namespace "A": must be the name of a namespace: `},
		{name: "a namespace of the farm that is none", flags: []string{"--farm-namespace="}, want: `invalid --farm-namespace "": must be the name of a namespace: `},
		{name: "an address without port", flags: []string{"--serving-address=localhost"}, want: `invalid --serving-address "localhost": must be host:port`},
		{name: "a port that is none", flags: []string{"--serving-address=:http"}, want: `invalid --serving-address ":http": must be host:port`},
		{name: "secure metrics", flags: []string{"--metrics-address=:8443", "--metrics-tls-cert-file=a", "--metrics-tls-key-file=b"}},
		{name: "secure metrics without port", flags: []string{"--metrics-address=localhost"}, want: `invalid --metrics-address "localhost": must be host:port`},
		{name: "half of a certificate", flags: []string{"--metrics-address=:8443", "--metrics-tls-key-file=b"}, want: `invalid --metrics-tls-cert-file "": must be set together with --metrics-tls-key-file`},
		{name: "a certificate for nothing", flags: []string{"--metrics-tls-cert-file=a", "--metrics-tls-key-file=b"}, want: `invalid --metrics-tls-cert-file "a": must be set together with --metrics-address`},
		{name: "negative limit", flags: []string{"--kube-api-qps=-1"}, want: "must not be negative"},
		{name: "no worker for hooks", flags: []string{"--hook-workers=0"}, want: `invalid --hook-workers "0": must be at least 1`},
		{name: "the port of Metacontroller's metrics", flags: []string{"--metrics-address=:9999"}, want: "use --serving-address=:9999 for HTTP, or another port for HTTPS"},
		{name: "another port for metrics", flags: []string{"--metrics-address=:8443"}},
		{name: "Metacontroller's workers", flags: []string{"--controllers=compositecontroller", "--workers=20"}, want: "use --hook-workers, which all of them share"},
		{name: "workers for hooks", flags: []string{"--controllers=compositecontroller", "--hook-workers=20"}},
		{name: "workers for others too", flags: []string{"--workers=20"}},
		{name: "answers of hooks without memory", flags: []string{"--hook-answer-memory=1Mi"}, want: `invalid --hook-answer-memory "1Mi": must be a quantity of bytes of at least 16Mi, as in 256Mi`},
		{name: "burst alone", flags: []string{"--kube-api-burst=5"}, want: `invalid --kube-api-burst "5": must be set together with --kube-api-qps`},
		{name: "no time to answer", flags: []string{"--kube-api-timeout=10ms"}, want: `invalid --kube-api-timeout "10ms": must be at least a second`},
		{name: "no time to stop", flags: []string{"--shutdown-timeout=0"}, want: `invalid --shutdown-timeout "0s": must be positive`},
		{name: "lease shorter than deadline", flags: []string{"--leader-elect-lease-duration=10s"}, want: `invalid --leader-elect-renew-deadline "10s": must be less than --leader-elect-lease-duration 10s`},
		{name: "lease of broken seconds", flags: []string{"--leader-elect-lease-duration=15500ms"}, want: `invalid --leader-elect-lease-duration "15.5s": must be whole seconds`},
		{name: "no time to retry", flags: []string{"--leader-elect-retry-period=9s"}, want: `invalid --leader-elect-retry-period "9s": must be positive, and 1.2 times it less than --leader-elect-renew-deadline 10s`},
		{name: "no lease name", flags: []string{"--leader-elect-lease-name="}, want: `invalid --leader-elect-lease-name "": must be the name of a Lease`},
		{name: "a bad election that is not held", flags: []string{"--leader-elect=false", "--leader-elect-lease-name="}},
		{name: "several", flags: []string{"--workers=0", "--namespace=A"}, want: "must be at least 1; invalid --namespace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			options := parse(t, tc.flags...)
			err := options.Validate()
			switch {
			case err == nil && tc.want != "":
				t.Errorf("no error, want %s", tc.want)
			case err != nil && (tc.want == "" || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got  %v\nwant %s", err, tc.want)
			case err != nil && strings.Contains(err.Error(), "\n"):
				t.Errorf("more than a line: %v", err)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	outsideOfCluster(t)
	kubeconfig := writeKubeconfig(t, "elsewhere")
	config, err := parse(t, "--kubeconfig="+kubeconfig, "--serving-address=0", "--kube-api-qps=20").Config("v1")
	if err != nil {
		t.Fatal(err)
	}
	if config.ServingAddress != "" {
		t.Errorf("it serves on %q, want nothing", config.ServingAddress)
	}
	if got := config.LeaderElection.Namespace; got != "default" {
		t.Errorf("the Lease is in %q, want default: the context's namespace must not decide who competes with whom", got)
	}
	if client := config.clients.(restClients).config; client.QPS != 20 || client.Burst != 20 {
		t.Errorf("QPS %v, burst %d", client.QPS, client.Burst)
	}
	config, err = parse(t, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--serving-address=0.0.0.0:80").Config("v1")
	if err != nil {
		t.Fatal(err)
	}
	if config.LeaderElection != nil {
		t.Error("there is leader election")
	}
	if config.ServingAddress != "0.0.0.0:80" {
		t.Errorf("it serves on %q", config.ServingAddress)
	}
	if client := config.clients.(restClients).config; client.QPS != -1 {
		t.Errorf("QPS %v, want no limit", client.QPS)
	}
}

func TestOutsideOfAClusterThereIsOneLease(t *testing.T) {
	outsideOfCluster(t)
	t.Setenv("KUBECONFIG", writeKubeconfig(t, "elsewhere"))
	config, err := parse(t).Config("v1")
	if err != nil {
		t.Fatal(err)
	}
	if got := config.LeaderElection.Namespace; got != "default" || config.OperatorNamespace != "" {
		t.Errorf("the Lease is in %q and the operator in %q, want the same as with --kubeconfig", got, config.OperatorNamespace)
	}
}

func TestTheClusterIsLoggedFirst(t *testing.T) {
	p := newProcess(t, newFakeCluster())
	path := writeKubeconfig(t, "elsewhere")
	cluster, err := kubeconfig.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	p.config.cluster = cluster
	_ = p.start().end()
	first, _, _ := strings.Cut(p.logs(), "\n")
	for _, want := range []string{"Using the current context of the kubeconfig", `context="c"`, `server="https://192.0.2.1:6443"`, path} {
		if !strings.Contains(first, want) {
			t.Errorf("the first line does not contain %s:\n%s", want, first)
		}
	}
}

func TestKubeconfigErrorsNameTheFile(t *testing.T) {
	outsideOfCluster(t)
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{empty, filepath.Join(dir, "absent")} {
		if _, err := parse(t, "--kubeconfig="+path).Config("v1"); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "--kubeconfig") {
			t.Errorf("%v, want it to name %s and --kubeconfig", err, path)
		}
	}
}

func parse(t *testing.T, flags ...string) *Options {
	t.Helper()
	options := NewOptions()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, group := range options.Flags().FlagSets {
		fs.AddFlagSet(group)
	}
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return options
}

// outsideOfCluster makes the test's environment that of a developer.
func outsideOfCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "")
}

func writeKubeconfig(t *testing.T, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, namespace: ` + namespace + `}}]
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}]
`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPhasesHaveNoOperatorAccount(t *testing.T) {
	options := NewOptions()
	if err := options.Set("phase-service-account", "millwright-core"); err != nil {
		t.Fatal(err)
	}
	want := `invalid --phase-service-account "millwright-core": must not be an account of the operator`
	if err := options.Validate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestNamespaceOfTheProcess(t *testing.T) {
	t.Setenv(podNamespace, "")
	if got := ownNamespace(false); got != "" {
		t.Errorf("outside of a cluster it is %q", got)
	}
	t.Setenv(podNamespace, "tools")
	for _, inPod := range []bool{true, false} {
		if got := ownNamespace(inPod); got != "tools" {
			t.Errorf("in a Pod %t: it is %q", inPod, got)
		}
	}
}
