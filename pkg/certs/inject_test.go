// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"encoding/base64"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/google/go-cmp/cmp"
)

func clientConfig(service string, more map[string]any) map[string]any {
	config := map[string]any{"service": map[string]any{"namespace": "default", "name": service}}
	for key, value := range more {
		config[key] = value
	}
	return config
}

// patched is an object after its patch.
func patched(t *testing.T, before *unstructured.Unstructured, patch []byte) *unstructured.Unstructured {
	t.Helper()
	before = before.DeepCopy()
	before.SetAPIVersion("test/v1")
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), before)
	resource, _ := meta.UnsafeGuessKindToResource(before.GroupVersionKind())
	after, err := client.Resource(resource).Patch(testContext(t), before.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(after.Object, "apiVersion")
	return after
}

func TestInjectionTargets(t *testing.T) {
	bundle := []byte("the bundle")
	text := base64.StdEncoding.EncodeToString(bundle)
	secure := map[string]any{"caBundle": text}
	tests := map[string]struct{ before, want map[string]any }{
		"ValidatingWebhookConfiguration": {
			map[string]any{"webhooks": []any{map[string]any{"clientConfig": clientConfig("other", nil)},
				map[string]any{"clientConfig": clientConfig(service.Name, nil)}, map[string]any{"clientConfig": map[string]any{"url": "https://x"}}}},
			map[string]any{"webhooks": []any{map[string]any{"clientConfig": clientConfig("other", nil)},
				map[string]any{"clientConfig": clientConfig(service.Name, secure)}, map[string]any{"clientConfig": map[string]any{"url": "https://x"}}}},
		},
		"MutatingWebhookConfiguration": {
			map[string]any{"webhooks": []any{map[string]any{"clientConfig": clientConfig(service.Name, map[string]any{"caBundle": "b2xk"})}}},
			map[string]any{"webhooks": []any{map[string]any{"clientConfig": clientConfig(service.Name, secure)}}},
		},
		"CustomResourceDefinition": {
			map[string]any{"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": clientConfig(service.Name, nil)}}}},
			map[string]any{"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": clientConfig(service.Name, secure)}}}},
		},
		"APIService": {
			map[string]any{"spec": clientConfig(service.Name, map[string]any{"insecureSkipTLSVerify": true})},
			map[string]any{"spec": clientConfig(service.Name, map[string]any{"insecureSkipTLSVerify": false, "caBundle": text})},
		},
	}
	for kind, test := range tests {
		t.Run(kind, func(t *testing.T) {
			before := object(kind, "ours", test.before)
			target, err := ObserveTarget(before, service)
			if err != nil {
				t.Fatal(err)
			}
			patch, err := target.Patch(bundle)
			if err != nil {
				t.Fatal(err)
			}
			after := patched(t, before, patch)
			if diff := cmp.Diff(object(kind, "ours", test.want).Object, after.Object); diff != "" {
				t.Errorf("after the patch (-want +got):\n%s", diff)
			}
			if target, err = ObserveTarget(after, service); err != nil || !target.has(bundle) {
				t.Errorf("after the patch the target still lacks the bundle (%v)", err)
			}
			if patch, err := target.Patch(bundle); patch != nil || err != nil {
				t.Errorf("a second patch %s (%v)", patch, err)
			}
		})
	}
}

func TestPatchConflict(t *testing.T) {
	target, err := ObserveTarget(object("APIService", "ours", map[string]any{"spec": clientConfig(service.Name, nil)}), service)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := target.Patch([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	changed := object("APIService", "ours", map[string]any{"spec": clientConfig(service.Name, nil)})
	changed.SetResourceVersion("8")
	// The API server compares the resourceVersion that a patched object has with the stored one.
	if got := patched(t, changed, patch).GetResourceVersion(); got != "7" {
		t.Errorf("the patch does not say what it is based on: resourceVersion %q", got)
	}
}

func TestAKindWithoutABundleIsAnError(t *testing.T) {
	if target, err := ObserveTarget(object("Service", "ours", map[string]any{}), service); err == nil {
		t.Errorf("a Service is taken as a target: %v", target)
	}
}

func TestEqualAuthoritiesMakeEqualBundles(t *testing.T) {
	f := rotating(t)
	want := f.State.Bundle()
	f.State.Authorities = []Authority{f.State.Authorities[1], f.State.Authorities[0], f.State.Authorities[1]}
	if string(f.State.Bundle()) != string(want) {
		t.Error("the bundle depends on the order in which authorities are found")
	}
}
