// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package related selects the related objects of parents, by the rules that a customize hook answers with, and watches them.
//
// A controller has one [Watcher]. A sync of a parent compiles the rules when the hook has answered something else than before, and keeps them
// with the parent's state:
//
//	watcher := related.NewWatcher(objects, queue.Enqueue, report) // and watcher.Close() when the controller stops
//
//	answer, err := related.Parse(customized.RelatedResources, related.Bounds{Version: ..., ParentNamespace: ...})
//	served := ...                        // how the API server serves answer.Resources()
//	rules, err := answer.Resolve(served) // err is a *hook.Error: a reason for the condition of the controller
//
// Each sync then selects. Nothing is sent to the sync hook before all is there:
//
//	if status := watcher.Ensure(key, rules); !status.Synced {
//		return status.Problem // if there is one: it names the RBAC rule that is missing. The key is queued when that changes.
//	}
//	selection, status := watcher.Select(key)
//	request.Related = selection.Groups // selection.Sum is as last time: so are all objects
//
// A parent that is gone, or has no customize hook any more, is released:
//
//	watcher.Release(key)
//
// A change of an object queues the keys whose rules select it before or after, at a cost that grows with their number: an [Index] finds
// them. A Namespace that is relabelled queues those whose namespaceSelector matches it only before or only after. No hook is called for that.
//
// Watches are as narrow as the rules, up to a limit (demand.go). Above it, wider ones take their place where the API server allows these. A new
// watch is acquired before an old one is released, so that a parent that was served is served without a gap.
//
// What is selected is what Metacontroller 4.17 selects: names without a namespace are those of all namespaces, an empty list of names is
// as good as none, and under v1 a namespaced parent selects in its own namespace. Cluster-scoped objects can be selected with v1 too; the
// version of the sync hook decides whether the parent sees them. Refused, where Metacontroller selects nothing or shows nothing of it, are a namespace
// or namespaceSelector for a cluster-scoped resource, names that no object can have, and what no hook would see.
//
// The files:
//
//	text.go, parse.go       an answer as text, and as valid rules
//	rules.go                rules that are compiled for what the API server serves
//	index.go                from a change to keys
//	selection.go            from rules to objects
//	scope.go, demand.go     which watches have what rules need
//	watcher.go, watches.go  the watches that are held, and who waits for them
package related
