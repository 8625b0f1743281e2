// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs makes, rotates and serves the certificates of our webhooks and of the aggregated API.
//
// One Secret of type kubernetes.io/tls holds all, so that each step is one write: tls.crt and tls.key (what servers show), ca.crt
// (the bundle: all authorities that clients are to trust), ca.key (keys of the authorities that sign or wait to) and
// rotation.json (since when an authority is distributed, until when what it signed is valid). A server needs the first
// two alone: mount those with `items`.
//
// Authorities overlap. The next one enters the bundle; once all targets were seen to carry it, that is recorded; after the
// time that clients need, the serving certificate is signed by it and the old key is forgotten; the old authority leaves the
// bundle when all that it signed has expired. Before an authority is trusted nothing is served that it signed, unless there is nothing
// that clients could accept anyway. Deleting the Secret makes all anew at once: that is how to revoke.
//
// A controller does the reading and the writing. In one sync it
//
//  1. reads the targets (webhook configurations, APIServices, CRDs): ObserveTarget;
//  2. reads the Secret, after the targets and from the API server, not from a cache: Decode. Whoever decides from an old
//     Secret has then read old targets too, and its patches end in a conflict;
//  3. asks Decide what to do;
//  4. patches the targets in Plan.Inject with the bundle of the state it has read: Target.Patch;
//  5. if there are steps: Advance, Store, create or update. LostRace tells that another was first, and all begins anew;
//  6. comes back after Plan.RequeueAfter, and whenever the Secret or a target changes.
//
// The targets must be complete: a target that was not listed is not waited for. ErrForeign is a Conflict, shown and not retried.
//
// A server keeps a Source up to date by Update with the Secret's bytes, or by RunFiles, or gives it what SelfSigned made.
package certs
