// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine hosts controllers whose logic is a webhook: CompositeControllers and DecoratorControllers, called declarations here. Package parent,
// below it, syncs the parents of one declaration: the targets, if it is a DecoratorController. One loop syncs all declarations of a kind; its
// keys are declarations and parents, and in its queue the declarations take turns. Packages composite and decorator are this one with their kind.
//
// A declaration is compiled, its parents and children are watched, and its parents are synced once the caches are filled. A new generation
// of its spec, or another answer of discovery, replaces what is hosted. The engine watches declarations and CustomResourceDefinitions, and
// writes the status and the finalizer of declarations.
//
//	controller.go      the struct, New, Run, and the interface to package parent
//	declarations.go    the declarations of a kind, from its generated lister and client
//	sync.go            the sync of a declaration: host, replace, start, stop
//	discovery.go       which resources the API server serves, and when it is asked again
//	overlap.go         which CompositeControllers the change of one affects
//	builtin.go         which parents are left to another controller of Millwright
//	finalizers.go      the finalizers of a declaration and of its parents
//	unstored.go        what the API server has dropped of a status, because the definition is another one (pure)
//	redefined.go       the definition of the declarations themselves: when it changes, and what is wrong with it
//	lag.go             when the API server is asked again after a definition has changed (pure)
//	formerparents.go   the former types of parents, whose finalizers are removed (pure)
//	status.go          the status (pure)
//	events.go          event reasons (pure)
//	apply.go           the writes
//	standby.go         the watches of a process that is not the leader
//	metrics.go         the metrics
//
// The engine has the rights on parents and children that ClusterRoles with the label millwright.dev/aggregate-to-engine grant.
package engine
