// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parent syncs the parents of one declaration: of a CompositeController, or the targets of a DecoratorController. A sync observes a parent
// and its children, which are attachments if it is a target, calls the hook, decides a plan from the answer, and applies it. All of an answer is
// used, or nothing.
//
//	declaration.go, kind.go   a CompositeController or DecoratorController in the form that is common to both (pure)
//	rules.go           its rules: which types and which objects (pure)
//	controller.go, lifecycle.go   the struct, New, Start, Stop
//	state.go           the state of each parent in memory
//	spec.go            Compile: a declaration, validated and ready for use (pure)
//	overlap.go         what is left to older CompositeControllers (pure)
//	health.go          what the status of the declaration reports
//	changes.go, orphans.go, blocked.go   which parents a change concerns
//	sync.go            the sync of a parent
//	selection.go       which objects are parents, and which hook is called (pure)
//	claim.go           which objects are children, and which are adopted or released (pure)
//	customize.go, served.go   the related objects, by the rules of the customize hook
//	content.go         what of a parent the customize hook is asked about (pure)
//	gather.go, children.go, adopt.go   the children, adoption, the call of the hook
//	views.go           the parent as hooks are called about it: as it is, and in a rolling update as it was in older revisions
//	hooks.go           how the hook is called, and how its answer is decoded (pure)
//	observed.go, desired_children.go   what a plan is decided from (pure)
//	plan.go, plan_children.go   decide: the steps, the status and the finalizer (pure)
//	rolling.go, records.go   the revision of each child in a rolling update, and the ControllerRevisions that record it (pure)
//	strategy.go        the strategies by which children are written (pure)
//	recreation.go      whether a recreated child would differ (pure)
//	throttle.go        delays the answers of a hook that never settles (pure)
//	target.go, rewritehistory.go   what is written of a target, and of a status that others write, too (pure)
//	desired.go         children and parents as they are written (pure)
//	status.go, events.go, toolarge.go   the status, the events, objects that are too large (pure)
//	history.go         what a process has learned from its writes (pure)
//	apply.go, apply_step.go, apply_child.go, apply_parent.go, finalizers.go   the writes
//	errors.go, failures.go   what the status of the declaration reports of failed syncs
//	metrics.go, hookmetrics.go   the metrics
//
// The plan is not a controller.Plan, and the sync not one of controller.Reconcile: steps do not end the sync when one fails, steps of one verb are
// applied concurrently in batches that grow with success, and their results are recorded in the history, which the next plan is decided from. The
// one ask is the hook: when it is called is decided before the children are read, and the memory of its answer is reserved and released.
//
// A child of which the same is desired as in the version in which nothing had to be done is not parsed again. A difference that returns after each
// write is written with a growing backoff, and so are repairs of what another client changes back each time (controller.RewriteBackoff). A
// child is not deleted for a difference that it would have again: that is decided from the child or by a dry run (recreation.go), not from
// memory.
//
// In a rolling update of n children there are n syncs with n children in each. What of a sync takes time for each child is kept small: the children that
// were gathered, and those that were decoded of each answer, are kept for the next sync, which replaces what has changed.
package parent
