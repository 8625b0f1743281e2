// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/objectcache"
)

// TestRedefinition: only another spec of a definition changes objects; a change of its status may mean that it is served now.
func TestRedefinition(t *testing.T) {
	h := newHost(t, controllerWith())
	ctx, cancel := context.WithCancel(t.Context())
	objects, err := objectcache.New(ctx, &rest.Config{Transport: silentTransport{}}, objectcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		objects.Wait()
	})
	h.Objects = objects
	h.start()
	of := func(generation int64) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", UID: "crd", Generation: generation}}
	}
	const defined, redefined = "defined things.example.com for generation 7", "redefined things.example.com for generation 7"
	h.definitionChanged(nil, of(1), true)
	h.wantDid(defined)
	h.definitionChanged(of(1), of(1), false)
	h.wantDid(defined)
	h.definitionChanged(of(1), of(2), false)
	h.wantDid(defined, redefined)
	again := of(2)
	again.UID = "another"
	h.definitionChanged(of(2), again, false)
	h.wantDid(defined, redefined)
	h.definitionChanged(again, nil, false)
	h.wantDid(defined)
}
