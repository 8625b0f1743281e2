// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Target is an object from which clients learn what to trust: a webhook configuration, an APIService, or a CRD with a
// conversion webhook.
type Target struct {
	// Name is the kind and the name of the object.
	Name string
	// entries are the parts of the object that send clients to our Service.
	entries         []entry
	resourceVersion string
}

// entry is one caBundle.
type entry struct {
	// path is the JSON pointer of what holds the caBundle.
	path   string
	bundle []byte
	// insecure reports that clients verify nothing. Only an APIService has such a field.
	insecure bool
}

// ObserveTarget returns what clients trust at our Service because of an object. What it has for other Services, or of URLs,
// is not ours. The object is not changed. An error is returned for a kind that has no caBundle.
func ObserveTarget(object *unstructured.Unstructured, service types.NamespacedName) (Target, error) {
	target := Target{Name: object.GetKind() + " " + object.GetName(), resourceVersion: object.GetResourceVersion()}
	switch object.GetKind() {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		webhooks, _, _ := unstructured.NestedFieldNoCopy(object.Object, "webhooks")
		list, _ := webhooks.([]any)
		for i, webhook := range list {
			fields, _ := webhook.(map[string]any)
			config, _ := fields["clientConfig"].(map[string]any)
			target.observe(config, fmt.Sprintf("/webhooks/%d/clientConfig", i), service)
		}
	case "CustomResourceDefinition":
		config, _, _ := unstructured.NestedMap(object.Object, "spec", "conversion", "webhook", "clientConfig")
		target.observe(config, "/spec/conversion/webhook/clientConfig", service)
	case "APIService":
		config, _, _ := unstructured.NestedMap(object.Object, "spec")
		target.observe(config, "/spec", service)
	default:
		return Target{}, fmt.Errorf("looking for the caBundle of %s: this kind has none", target.Name)
	}
	return target, nil
}

// IsForService reports whether the object sends clients to our Service at all.
func (t Target) IsForService() bool { return len(t.entries) > 0 }

func (t *Target) observe(config map[string]any, path string, service types.NamespacedName) {
	reference, _ := config["service"].(map[string]any)
	if reference["namespace"] != service.Namespace || reference["name"] != service.Name {
		return
	}
	text, _ := config["caBundle"].(string)
	bundle, _ := base64.StdEncoding.DecodeString(text) // what is not base64 is no bundle, and is replaced
	insecure, _ := config["insecureSkipTLSVerify"].(bool)
	t.entries = append(t.entries, entry{path, bundle, insecure})
}

// Patch returns the JSON patch (RFC 6902) that gives a target the bundle, nil if it has it or is not for our Service. The
// API refuses a caBundle together with insecureSkipTLSVerify, so one patch changes both. A conflict is answered if the object
// has changed since it was observed.
func (t Target) Patch(bundle []byte) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	patch := []operation{{"add", "/metadata/resourceVersion", t.resourceVersion}}
	for _, e := range t.entries {
		if e.insecure {
			patch = append(patch, operation{"add", e.path + "/insecureSkipTLSVerify", false})
		}
		if !bytes.Equal(e.bundle, bundle) {
			patch = append(patch, operation{"add", e.path + "/caBundle", bundle})
		}
	}
	if len(patch) == 1 {
		return nil, nil
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("making the patch of the caBundle of %s: %w", t.Name, err)
	}
	return encoded, nil
}

// has reports whether a target has exactly this bundle, which the API allows only if it is verified, too.
func (t Target) has(bundle []byte) bool {
	return !slices.ContainsFunc(t.entries, func(e entry) bool { return !bytes.Equal(e.bundle, bundle) })
}

// carries reports whether a target makes clients trust an authority, among others.
func (t Target) carries(authority *x509.Certificate) bool {
	return !slices.ContainsFunc(t.entries, func(e entry) bool {
		certificates, _ := decodeCertificates(e.bundle)
		return !slices.ContainsFunc(certificates, authority.Equal)
	})
}

// outdated names the targets that lack the bundle. An empty bundle is never injected: the Secret is repaired first.
func outdated(o Observed) []string {
	var names []string
	bundle := o.State.Bundle()
	for _, target := range o.Targets {
		if len(bundle) > 0 && !target.has(bundle) {
			names = append(names, target.Name)
		}
	}
	return names
}

func carriedByAll(o Observed, a *Authority) bool {
	return !slices.ContainsFunc(o.Targets, func(t Target) bool { return !t.carries(a.Certificate) })
}
