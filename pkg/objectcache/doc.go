// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectcache holds objects of any kind in little memory, with one watch per resource for all its users where the API server allows it,
// and one for each name that a user requests.
//
// A [RawObject] is an object as compact JSON, with a small header of the fields that controllers need; nothing is decoded to a tree. A [Cache]
// lists and watches, through client-go's Reflector, what its users acquire:
//
//	objects, err := objectcache.New(ctx, config, objectcache.Options{})
//	children, err := objects.Acquire(objectcache.Request{
//		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
//		OnChange: func(old, new *objectcache.RawObject) { ... queue a key ... },
//	})
//	synced := cache.WaitFor(ctx, "children", children.Synced()) // k8s.io/client-go/tools/cache
//	mine := children.OwnedBy(parent.GetUID(), namespace)
//	children.Release() // the last release ends the watch
//
// Each user sees what it requested. The watch has what all users need: it is limited to a namespace, a name or a selector that all have in
// common, and narrowed half a minute after they need less. To widen or narrow it, a second watch is started, which takes over when it has
// its first state (feed.go, state.go): no user misses a change, sees one undone, or gets an object twice. If the API server forbids the watch
// that all need together, each user that needs less gets a watch of its own: a Role is enough for one that needs a namespace (own.go).
//
// A user that requests objects by name has a watch of its own, and neither widens nor narrows that of others. Only where the shared watch has
// the object anyway, the user is its guest until that is narrowed.
//
// A resource that is not served, or not allowed, is retried, first within half a second and finally every 15 to 30 seconds; its users get the
// reason ([Handle.Problem]) and keep the objects that they have seen. [Cache.Retry] ends the wait.
//
// The path of an event: HTTP, client-go's frames, decode.go and parse.go (bytes to RawObject), the Reflector, source.go (its store), state.go
// (into the feed), queue.go (one per user), handle.go (OnChange).
//
// Memory is measured by "go test -run '^$' -bench Memory -benchtime 1x ./pkg/testing/integration/objectcache".
//
// [Handle.List] with a selector costs as much as there are objects with one of its labels: the labels that users list by are indexed
// (labelindex.go). A [SelectorIndex] finds the users' own keys whose selectors match an ownerless object.
package objectcache
