// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package related selects the related objects of parents, by the rules that a customize hook answers with.
//
//	answer, err := related.Parse(customized.RelatedResources, related.Bounds{...}) // only when the hook has answered something else
//	served := ... // how the API server serves answer.Resources()
//	rules, err := answer.Resolve(served)
//
// Every error of Parse and Resolve is a [*hook.Error], whose Reason fits a condition and whose text names the field.
//
// An [Index] finds the keys of the parents whose rules select an object that has changed. It never calls a hook. [Rules.Select] returns the
// objects that the rules select now, ready for the request of a sync hook.
//
// What is selected is what Metacontroller 4.17 selects: names without a namespace are those of all namespaces, an empty list of names is
// as good as none, and under v1 a namespaced parent selects in its own namespace. Cluster-scoped objects can be selected with v1 too; the
// version of the sync hook decides whether the parent sees them. Refused, where Metacontroller selects nothing, are a namespace or
// namespaceSelector for a cluster-scoped resource, and names that no object can have.
//
// The files:
//
//	text.go, parse.go   an answer as text, and as valid rules
//	rules.go            rules that are compiled for what the API server serves
//	scope.go            what must be watched for them
//	index.go            from a change to keys
//	selection.go        from rules to objects
package related
