// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package perturbation tests that a controller reaches the same final state whatever faults it meets on the way.
//
// A [Scenario] is a list of a user's acts. It is run once undisturbed, against the real API server, in its own namespace and behind a
// proxy that records every write. Each write is a [Point]. Then the scenario is run again for every point and every [Pattern]: the
// controller is killed just before or just after the write, a watch is frozen while the write is sent, the cache of the restarted
// controller is filled with an old version, changes are made and reverted unobserved, the write is held back until another instance has
// done the work, events are lost. Every run must end in the state of the undisturbed one (names and times aside), and the scenario's
// invariants must hold at every version of the history that a watch of the API server reports.
//
// The method is that of Sieve (Sun et al., OSDI 2022). To add a controller, write a scenario file like immortalcontainer_test.go.
package perturbation
