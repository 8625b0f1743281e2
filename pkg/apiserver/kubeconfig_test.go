// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"strings"
	"testing"

	"k8s.io/klog/v2/ktesting"
)

func TestTheFilesThatKubectlReadsServeForEverything(t *testing.T) {
	s, named := prepare(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	// The context is in a second file: k8s.io/apiserver takes only one.
	t.Setenv("KUBECONFIG", os.DevNull+string(os.PathListSeparator)+named.Kubeconfig)
	t.Setenv("TMPDIR", t.TempDir())
	found := named.Options
	found.Kubeconfig, found.Authentication.RemoteKubeConfigFile, found.Authorization.RemoteKubeConfigFile = "", "", ""
	config, err := found.Config("test")
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, config)
	s.as(t, "farmer").expect(t, 200, "GET", llamas, "") // both have asked kube-apiserver
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("credentials are left in %s: %v, %v", os.TempDir(), left, err)
	}
	first, _, _ := strings.Cut(s.logger.GetSink().(ktesting.Underlier).GetBuffer().String(), "\n")
	if !strings.Contains(first, `context="x" server="`+s.kube.server.URL+`"`) {
		t.Errorf("the first line of the log does not name the cluster: %s", first)
	}
}
