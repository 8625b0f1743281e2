// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package phase is what a phase of an action does: one call of one function.
//
// A call goes so, and each step may happen in another process than the one before:
//
//	Validate   says what is about to be done, as an intent, without doing it
//	           - the intent is recorded in the status of the ActionSet -
//	Start      does it, unless it was done already; it may want one more intent to be recorded in between
//	Poll       tells how it goes
//	           - how it has ended is recorded -
//	Cancel     stops it, and removes what it leaves
//
// What is recorded before Start is what the next process needs in order to find again what was done. A function whose effect lives
// in one process cannot be found again; its traits say so.
//
// # Pods
//
// KubeTask, MultiContainerRun and PrepareData make one Pod each, and are one podFunction with three plans:
//
//	podspec.go, podoverride.go   the Pod, from the plan and from what the Blueprint and the ActionSet say of it
//	podcall.go, podleft.go       made gated, recorded, let go; found again; removed
//	podobserve.go, podfailure.go how it goes, and what its failure is called
//	podwatch.go, podlog.go       one watch for each namespace, and one reader for each log
//	podruns.go                   what this process knows of all that; another one finds it out anew
package phase
