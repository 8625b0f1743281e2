// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager builds, runs and stops the controllers of one process.
//
// Start with the table in controllers.go, then read Run in manager.go from top to bottom. The life of one controller is in
// lifecycle.go: wait until its APIs are served (apis.go), build it (context.go), wait for leadership, run, join. Leadership
// (leadership.go, lease.go, leasewatch.go) is a Lease; fence.go keeps a process that does not hold it from writing, and leaseversions.go
// ends one whose API server has gone back in time.
//
// The account of the manager needs, in addition to what its controllers need: get, create, update, list and watch on the Lease, and
// create and patch on events. list and watch only make a handover faster; without them the Lease is polled.
package manager
