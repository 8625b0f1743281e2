// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memorystore keeps the objects of an aggregated API in the memory of the process: a storage.Interface for tests, and for trying
// things out. It behaves as one over etcd does, with resourceVersions of which old ones can be read for a while, bookmarks, initial
// events and the error 410.
//
// What it keeps is gone when the process ends. Several replicas have nothing in common: a client sees other objects whenever
// another one answers. Run it in one replica only.
//
// resourceVersions begin at the microsecond of the start and rise by one with each write. As long as there are less than a million
// writes in a second and the clock is not set back, those of the next process are higher: a client that watches on from before is
// told 410, and lists again.
package memorystore
