// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package phase is the contract between the controller of ActionSets and the functions that phases call.
//
// A phase is one call of one function. These are the steps of a call; each of them may run in another process than the step before:
//
//	Validate   returns an intent, which describes what Start will do, and changes nothing
//	           - the controller records the intent in the status of the ActionSet -
//	Start      carries out the intent, once; it may ask for a second intent to be recorded in between (Ready)
//	Poll       reports the state of the call
//	           - the controller records how the call has ended -
//	Cancel     stops the call, and removes what it leaves
//
// The intent is all that another process needs to find what an earlier process has started. The effect of some functions lives in one process and
// cannot be found by another one; Traits records that.
//
// The packages below:
//
//	function   the nine functions
//	podrun     runs one Pod for a phase: KubeTask, MultiContainerRun and PrepareData are plans for it
//	exec       runs commands in containers: KubeExec and KubeExecAll are arguments for it
//	tail       the last lines of a log, for the message of a failure
package phase
