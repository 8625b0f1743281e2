// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/testing/faultproxy"
)

// startProxy starts a proxy to the API server of the configuration, which runs until the test ends, and returns it with a kubeconfig for
// requests through it. The journal records the requests under the name.
func startProxy(t testing.TB, name string, config *rest.Config, journal *faultproxy.Journal) (proxy *faultproxy.Proxy, kubeconfig string) {
	t.Helper()
	proxy, err := faultproxy.Start(name, config, journal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	kubeconfig = filepath.Join(t.TempDir(), name+".kubeconfig")
	if err := proxy.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	return proxy, kubeconfig
}

// refuseWatchLists makes the proxy answer watch lists as an API server without them, until stop is called.
func refuseWatchLists(proxy *faultproxy.Proxy) (stop func()) {
	isWatchList := func(r faultproxy.Request) bool {
		return r.Verb == "watch" && r.Query.Get("sendInitialEvents") == "true"
	}
	return proxy.Answer(isWatchList, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", field.ErrorList{
		field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
	}))
}
