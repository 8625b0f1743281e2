// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/hook"
)

func TestWhatAnAccessNamesIsListedOnce(t *testing.T) {
	inline := "PEM"
	for name, tc := range map[string]struct {
		access hook.Access
		want   []Ref
	}{
		"no access":             {hook.Access{}, nil},
		"an inline bundle":      {hook.Access{CABundle: &hook.CABundle{Inline: &inline}}, nil},
		"a bundle in a Secret":  {hook.Access{CABundle: &hook.CABundle{SecretRef: &hook.KeyRef{Namespace: "ns", Name: "ca"}}}, []Ref{{Secret, "ns", "ca"}}},
		"a bundle in ConfigMap": {hook.Access{CABundle: &hook.CABundle{ConfigMapRef: &hook.KeyRef{Namespace: "ns", Name: "ca"}}}, []Ref{{ConfigMap, "ns", "ca"}}},
		"a certificate and a token": {hook.Access{
			ClientTLS:     &hook.ClientTLS{Namespace: "ns", Name: "tls"},
			Authorization: &hook.Authorization{SecretRef: hook.KeyRef{Namespace: "other", Name: "token"}},
		}, []Ref{{Secret, "ns", "tls"}, {Secret, "other", "token"}}},
		"all in one Secret, the bundle in a ConfigMap of its name": {hook.Access{
			CABundle:  &hook.CABundle{ConfigMapRef: &hook.KeyRef{Namespace: "ns", Name: "hook"}},
			ClientTLS: &hook.ClientTLS{Namespace: "ns", Name: "hook"},
			BasicAuth: &hook.BasicAuth{Namespace: "ns", Name: "hook"},
		}, []Ref{{ConfigMap, "ns", "hook"}, {Secret, "ns", "hook"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, RefsOf(tc.access)); diff != "" {
				t.Errorf("refs (-want +got):\n%s", diff)
			}
		})
	}
}
