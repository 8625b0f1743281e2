// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package perturbation proves that a controller reaches the same end whatever happens to it on the way.
//
// A Scenario (apply these objects, make these edits) is run once undisturbed, against the real API server and in a namespace
// of its own, behind a Proxy that records every write. Each write is a Point. Then the scenario is run again for every
// point and every Pattern: the controller is killed just before or just after that write, a watch is frozen while the
// write goes through, the cache of the restarted controller is filled from the past, changes come and go unobserved, the
// write is held back until another instance has done the work, events are lost. Every run must end in the state of the
// undisturbed one (names and times aside), and the scenario's invariants must hold at every instant of the history that
// the API server tells.
//
// The method is that of Sieve (Sun et al., OSDI 2022). To add a controller, write one scenario file beside
// immortalcontainer_test.go.
package perturbation
