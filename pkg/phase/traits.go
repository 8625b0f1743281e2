// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

// Traits are what must be known of a function before it is called.
type Traits struct {
	// Resumable: another process finds again what was started.
	Resumable bool
	// LeavesBehind: what was started goes on without any process of ours and without its ActionSet, so that the controller has to
	// remove it.
	LeavesBehind bool
}

// traits by the name of the function.
var traits = map[string]Traits{
	// A stream ends with the process that holds it.
	"KubeExec":    {},
	"KubeExecAll": {},
	// Pods may be in other namespaces than their ActionSet, where it cannot own them.
	"KubeTask":          {Resumable: true, LeavesBehind: true},
	"MultiContainerRun": {Resumable: true, LeavesBehind: true},
	"PrepareData":       {Resumable: true, LeavesBehind: true},
	// What these leave is their effect.
	"KubeOps":       {Resumable: true},
	"ScaleWorkload": {Resumable: true},
	"Wait":          {Resumable: true},
	"WaitV2":        {Resumable: true},
}

// TraitsOf the function of that name.
func TraitsOf(function string) Traits { return traits[function] }
