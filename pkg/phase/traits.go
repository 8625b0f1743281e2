// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

// Traits are properties of a function that must be known before it is called.
type Traits struct {
	// Resumable: another process can find what was started.
	Resumable bool
	// LeavesBehind: what was started continues without a process of ours and without its ActionSet, so that the controller has to
	// remove it.
	LeavesBehind bool
	// Remembered: the process that has started it keeps its result in memory until Cancel is called.
	Remembered bool
	// ObservesArgs: Poll needs the arguments.
	ObservesArgs bool
}

// traits by the name of the function.
var traits = map[string]Traits{
	// A stream ends with its process.
	"KubeExec":    {Remembered: true},
	"KubeExecAll": {Remembered: true},
	// Pods may be in other namespaces than their ActionSet, where the ActionSet cannot own them.
	"KubeTask":          {Resumable: true, LeavesBehind: true},
	"MultiContainerRun": {Resumable: true, LeavesBehind: true},
	"PrepareData":       {Resumable: true, LeavesBehind: true},
	// What these leave is their effect.
	"KubeOps":       {Resumable: true},
	"ScaleWorkload": {Resumable: true, ObservesArgs: true},
	"Wait":          {Resumable: true, ObservesArgs: true},
	"WaitV2":        {Resumable: true, ObservesArgs: true},
}

// TraitsOf returns the traits of the function with this name.
func TraitsOf(function string) Traits { return traits[function] }
