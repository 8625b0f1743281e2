// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"millwright.dev/pkg/hook"
)

// Kind of an object that holds credentials.
type Kind string

const (
	Secret    Kind = "Secret"
	ConfigMap Kind = "ConfigMap"
)

// resource is the kind in the words of a role.
func (k Kind) resource() string { return strings.ToLower(string(k)) + "s" }

// Ref names an object that holds credentials.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

func (r Ref) String() string { return fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name) }

// invalid returns why no object can have such a name: a request for it would be for something else, or always fail.
func (r Ref) invalid() error {
	for what, segment := range map[string]string{"namespace": r.Namespace, "name": r.Name} {
		if segment == "" {
			return fmt.Errorf("no %s is given", what)
		}
		if faults := content.IsPathSegmentName(segment); len(faults) > 0 {
			return fmt.Errorf("the %s %q %s", what, segment, strings.Join(faults, ", "))
		}
	}
	return nil
}

// RefsOf returns what a hook with that access reads, each once.
func RefsOf(access hook.Access) (refs []Ref) {
	add := func(kind Kind, namespace, name string) {
		if ref := (Ref{kind, namespace, name}); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	if ca := access.CABundle; ca != nil && ca.SecretRef != nil {
		add(Secret, ca.SecretRef.Namespace, ca.SecretRef.Name)
	}
	if ca := access.CABundle; ca != nil && ca.ConfigMapRef != nil {
		add(ConfigMap, ca.ConfigMapRef.Namespace, ca.ConfigMapRef.Name)
	}
	if certificate := access.ClientTLS; certificate != nil {
		add(Secret, certificate.Namespace, certificate.Name)
	}
	if token := access.Authorization; token != nil {
		add(Secret, token.SecretRef.Namespace, token.SecretRef.Name)
	}
	if user := access.BasicAuth; user != nil {
		add(Secret, user.Namespace, user.Name)
	}
	return refs
}
