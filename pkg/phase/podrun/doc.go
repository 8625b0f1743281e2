// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podrun runs one Pod for one phase, and reports how it goes. A Planner describes the Pod; Runs.Function makes a phase.Function of it.
//
// A Pod is created with a scheduling gate, so that it does nothing. When its UID is recorded in the status of the ActionSet, the gate is removed by a
// patch that the API server refuses for any other UID. A request that arrives late can create a gated Pod, and nothing else.
//
//	spec.go, override.go      the Pod, from the plan, the Blueprint and the ActionSet
//	call.go, left.go          creates the Pod, removes its gate, finds it again, deletes it
//	observe.go, failure.go    the state of the Pod, and the message of its failure
//	waiting.go                what the Pod waits for, for the status
//	watch.go, log.go          one watch for each namespace, and one reader for each log
//	log_limits.go             how many logs are read at a time
//	runs.go                   what this process remembers; another process can do without it
package podrun
