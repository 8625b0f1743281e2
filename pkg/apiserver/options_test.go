// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"
	"testing"
	"time"
)

func TestInvalidCommandLine(t *testing.T) {
	for _, tc := range []struct {
		set  func(*Options)
		want string
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.LlamaStorage = "etcd" }, `invalid --llama-storage "etcd": must be records or memory`},
		{func(o *Options) { o.ServingSecret = "farm" }, `invalid --serving-secret "farm": must be namespace/name, as in millwright-system/farm-operator-serving`},
		{func(o *Options) { o.Serving.ServerCert.CertKey.CertFile = "a" }, "--tls-cert-file and --tls-private-key-file must be given together"},
		{func(o *Options) {
			o.ServingSecret, o.Serving.ServerCert.CertDirectory = "default/farm", "a"
		}, "--serving-secret must not be given with --tls-cert-file, --tls-private-key-file or --cert-dir: the certificate comes from one place"},
		{func(o *Options) { o.LlamaStorage, o.Serving.BindPort = "", -1 }, `invalid --llama-storage "": must be records or memory; --secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port`},
	} {
		o := NewOptions()
		tc.set(o)
		got := ""
		if err := o.Validate(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func TestDefaultOptions(t *testing.T) {
	o := NewOptions()
	if o.Serving.BindPort != 3000 || o.Serving.ServerCert.CertDirectory != "" || o.LlamaStorage != "records" || o.Features.EnablePriorityAndFairness {
		t.Errorf("options %+v", o)
	}
	if o.Server.ShutdownDelayDuration != 5*time.Second || !o.Server.ShutdownSendRetryAfter || o.Server.ShutdownWatchTerminationGracePeriod == 0 {
		t.Errorf("server %+v", o.Server)
	}
	if o.Serving.HTTP2MaxStreamsPerConnection != 1000 {
		t.Errorf("serving %+v", o.Serving)
	}
}

func TestRightsAreAskedForAsFarAsTheyAreNeeded(t *testing.T) {
	resources := func(o *Options) []string {
		var all []string
		for _, from := range neededRights(o) {
			for _, one := range from.rights {
				all = append(all, one.resource)
			}
		}
		return all
	}
	o := NewOptions()
	if all := resources(o); !slices.Contains(all, "llamarecords") || slices.Contains(all, "secrets") || slices.Contains(all, "flowschemas") {
		t.Errorf("rights on %q", all)
	}
	o.LlamaStorage, o.ServingSecret, o.Features.EnablePriorityAndFairness = storageMemory, "default/farm", true
	if all := resources(o); slices.Contains(all, "llamarecords") || !slices.Contains(all, "secrets") || !slices.Contains(all, "flowschemas") {
		t.Errorf("rights on %q", all)
	}
}
