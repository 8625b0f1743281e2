// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller is what the controllers of Millwright share: the contract that the manager runs, the loop around a rate-limited work
// queue, the shape of a sync, the consistency store, ownership, conditions, events, and the metrics of all of these.
//
// A controller is a folder below this one. It owns a [Loop], adds what it watches with [Watch], and has one function,
//
//	syncHandler(ctx, key) (requeueAfter, error)
//
// which gathers what is observed from the caches and hands it to [Reconcile]: decide (pure) returns a [Plan], which either asks for what the
// caches do not prove, or has steps. Read package machine for an example. Its files have the same names in every kind: observed.go,
// gather.go, plan.go with one file per state where there are many, desired.go, status.go, events.go, apply.go, controller.go, doc.go.
// Three kinds differ: composite and decorator share package engine, which hosts controllers and has these files in its package parent; package certs
// decides for servingcert.
//
// The rules that every controller keeps, and the code that keeps them:
//
//  1. No object of a cache is changed, and informers do not resync: what depends on time returns a delay ([Plan].RequeueAfter).
//  2. A sync is level-triggered: it decides from what it observes, not from the event that caused it. [Source] passes keys only.
//  3. A plan is data. A file that decides or builds declares that it is pure (//millwright:pure), and hack/imports checks it: no clients,
//     caches, clock or randomness. The time is part of what is observed.
//  4. A child is changed only if it is ours, by UID ([OwnershipOf]). A [Foreign] object of the name that we need is a conflict: a condition,
//     an event ([ReasonResourceExists]), and another check within a minute. Deletes carry the UID as a precondition.
//  5. What must happen at most once is reserved, then done: a status write with a resourceVersion precondition records the intent, and any
//     process that finds an open reservation completes it. See the doc comments of packages machine and immortalcontainer.
//  6. A sync does not decide from a stale cache: one that has not seen the controller's own writes ([ConsistencyStore]). It is
//     postponed, which is neither a success nor a failure ([ErrPostponed]).
//  7. An error is returned to the loop, which picks the retry. Of several errors that are joined the most severe one decides (severity.go).
//     An optimistic-lock conflict is retried quietly, an error that [Permanent] marks not before the object changes, one
//     that [Invalid] marks at least every five minutes.
//  8. A write that does not last is repeated with a growing delay ([RewriteBackoff]).
//  9. Conditions carry the observed generation and change on a transition ([SetCondition]). The API server's reason for a rejection is
//     shown in its own words ([RejectionOf]).
//  10. Events follow the write that makes them true, and never a sync that changes nothing. [Events] posts those of one object in order.
//  11. If the object or its namespace is being deleted, nothing is created and the sync ends without an error ([ErrStop]).
//  12. What decides on a replacement or a rollout is a [Hash] of the user's own spec. A golden test pins it for each kind.
//  13. Caches hold no more than decisions need ([TrimCache]). Secrets are in no log, event, status or plan.
//  14. Every goroutine ends with its context: [Loop].Run returns when all workers have ended. A sync that does not end makes the process
//     unhealthy ([Loop].CheckSyncs).
//  15. No namespace, and no hosted controller, delays the others: they take turns for the workers ([NamespaceQueue], [FairQueue]).
package controller
