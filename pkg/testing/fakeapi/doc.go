// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakeapi is an API server in memory for unit tests. Clients reach it through an http.RoundTripper (Server.Config), so that
// all clients of a test (typed, dynamic, metadata, bare REST) share one store, encode what they would send to kube-apiserver, and
// run concurrently. It opens no socket: it works in a synctest bubble, in virtual time.
//
// It keeps what controllers rely on and client-go's fakes do not: UIDs, one resourceVersion for all resources and optimistic-lock
// conflicts, generations, the status subresource, preconditions, finalizers and graceful deletion, server-side apply with field
// managers, dry runs, generated names, watches filtered by selectors (an object that leaves the selection is deleted to the
// watch), watch lists, and metadata-only objects. The same script runs against it and against the real API server in
// pkg/testing/integration (TestFakeAPI).
//
// A test can
//   - read and change objects as users and other controllers do, outside of the request log (Objects);
//   - make requests fail, or lose their answers (Fail, Lose, FailIf, LoseIf);
//   - hold back watches and serve lists from the past, as a stale cache sees them (Freeze, FreezeAt, Release, Thaw);
//   - compare the requests and events of a controller (Log, TakeLog).
//
// It has no admission, validation, defaulting or garbage collection but what a Resource brings in its Admit function.
package fakeapi
