// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package blueprint reads Blueprints, apart from any cluster: which functions its phases may call and with which
// arguments, how its templates are rendered, and how a phase's output is read from what a container prints.
//
//	function, err := blueprint.Lookup(phase.Func)         // one of the 28 names, and one that we have
//	err = function.Validate(phase.Args)                   // required ones there, no unknown ones
//	budget := blueprint.NewBudget(ctx)
//	done, err := budget.Turn(false)                       // few of a process render at one time
//	renderer, err := blueprint.NewRenderer(budget, params) // what templates see: Params
//	args, err := renderer.Args(phase.Name, function, phase.Args)
//	err = blueprint.Decode(args, &blueprint.KubeTaskArgs{})
//	outputs := blueprint.NewOutputs(ctx, waitForMemory)   // those of a phase
//	reader := outputs.Reader(0, logLine)                  // an io.Writer for what a container prints
//
// # Templates
//
// Templates are Go's text/template with the functions of sprig that functions.go allows. A missing key is an error. A user who may
// write a Blueprint is not trusted with the operator: a template
//
//   - reads nothing but Params: no environment, no network, no files, no clock (now is the time of the action), no randomness.
//     The same Params give the same text, so that a run can be resumed. Only a struct that is printed as a whole shows addresses;
//   - ends: each step and each call is paid from a Budget (budget.go), in units of work and of memory, and it stops when the context
//     ends. Loops and calls of templates are charged by nodes that are put into the parsed template (instrument.go);
//   - takes little memory: each function has a price (prices.go), which is paid before it is called (wrap.go) and covers what it
//     returns. Functions whose price is not known before the call are replaced (replaced.go, compare.go, regexfunctions.go). What
//     templates are given is plain data (view.go): the cost of a method is not known;
//   - cannot panic: what a function panics with is an error, and no value that refers to itself is ever walked.
//
// Values of Params never appear in errors; expressions of the template do.
package blueprint
