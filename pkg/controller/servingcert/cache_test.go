// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestNoKeyOfASecretIsCached(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "s", "resourceVersion": "5", "managedFields": []any{map[string]any{"manager": "m"}}},
		"data":     map[string]any{"tls.key": "c2VjcmV0"},
	}}
	kept, err := withoutContent(secret)
	if err != nil {
		t.Fatal(err)
	}
	object := kept.(*unstructured.Unstructured)
	if _, has := object.Object["data"]; has || len(object.GetManagedFields()) > 0 {
		t.Errorf("the cache has %v", object.Object)
	}
	if object.GetName() != "s" || object.GetResourceVersion() != "5" {
		t.Errorf("the cache does not know which version of which Secret it has: %v", object.Object)
	}
}

// The manager takes a controller that returns for one that has failed.
func TestIdleControllerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended := false
		go func() { idle{}.Run(ctx, 1); ended = true }()
		synctest.Wait()
		if ended {
			t.Error("it has ended by itself")
		}
		stop()
		synctest.Wait()
		if !ended {
			t.Error("it does not stop")
		}
	})
}
