// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs makes, rotates and serves the certificates of our webhooks and of the aggregated API.
//
// Two Secrets hold all, so that a client that may read the key of a server cannot sign certificates. One is of the authorities and for the
// controller alone: ca.crt (the bundle: all authorities that clients are to trust), ca.key (keys of the authorities that sign or wait to)
// and rotation.json (since when an authority is distributed, until when what it signed is valid). The other one, of type
// kubernetes.io/tls, is for servers: tls.crt and tls.key (what they show), and a copy of ca.crt. The first is written first: between
// the two writes, the old certificate is served, and the next sync continues from there.
//
// Authorities overlap. The next one enters the bundle; once all targets were seen to carry it, that is recorded; after the
// time that clients need, the serving certificate is signed by it and the old key is forgotten; the old authority leaves the
// bundle when all that it signed has expired. Before an authority is trusted nothing is served that it signed, unless there is nothing
// that clients could accept anyway. Deleting the Secret of the authorities replaces them and the serving certificate immediately: that is
// how to revoke. Deleting the other one replaces the serving certificate, under the same authorities.
//
// A controller does the reading and the writing. In one sync it
//
//  1. reads the targets (webhook configurations, APIServices, CRDs): ObserveTarget;
//  2. reads the Secrets, after the targets and from the API server, not from a cache, that of the authorities last: Decode. A sync that
//     decides from old Secrets has then read old targets too, and its patches end in a conflict; and no certificate is written whose
//     authorities were read before the certificate that it replaces;
//  3. calls Decide, which returns what to do;
//  4. patches the targets in Plan.Inject with the bundle of the state it has read: Target.Patch;
//  5. does Advance, Store, create or update, in this order. LostRace reports that another process was first: then it begins again;
//  6. syncs again after Plan.RequeueAfter, and whenever a Secret or a target changes.
//
// The targets must be complete: a target that was not listed is not waited for. ErrForeign is a Conflict, shown and not retried.
//
// A server keeps a Source up to date by Update with the Secret's bytes, or by RunFiles, or gives it what SelfSigned made.
package certs
