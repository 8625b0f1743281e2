// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actionset runs ActionSets. The pure files decide, from what was observed, what to ask or to do:
//
//	observed.go                   what a decision is made from, answers to asks included
//	plan.go                       asks, steps, and the table of states (decide)
//	planner.go                    builds the plan of a run, from its next status
//	start.go, validation.go       starts a run, after all checks
//	running.go, running_phase.go  continues a run: its actions concurrently, the phases of each one after the other
//	termination.go                cancels and ends a run, and cleans up
//	foreign.go                    runs that another controller has started or ended
//	render_guard.go, poll_guard.go   what is recorded before a process does what may have ended another one
//	status.go, size.go, waiting.go   the status, its size, and what phases wait for
//	desired.go                    the snapshot of a run, in a Secret that the status identifies
//	named_inputs.go               which Secrets, ConfigMaps and Profile are read for templates
//	params.go, profile.go, workload.go, explain.go  the data of templates, and explanations of their errors
//	events.go                     the events of a run; the last one is in the status before it is posted
//	header.go                     what the cache holds of a large ActionSet, and of Blueprints
//
// The other files send requests to the API server:
//
//	controller.go                 the loop; one sync decides and acts until nothing is left to do without waiting, or its time is over
//	round.go                      the part of a run with many phases that one sync does, and the round of syncs in which each phase has its turn
//	gather.go, gather_*.go        what is observed before the first decision, and the answers to asks
//	apply.go, apply_snapshot.go   the steps of a plan
//	statusapi.go                  whether the API server serves the status of ActionSets as a subresource; if not, nothing is executed
//	memory.go, kept_runs.go       what this process remembers, as far as there is room; everything works without it
//	exclusion.go                  a sync that runs while no other one does
//	turns.go                      how many ActionSets are synced at a time that are large, or read much
//	metrics.go                    the metrics
//
// An ActionSet is in one of these states:
//
//   - new: it has no status, or one in which nothing was started;
//   - rejected or ended: it has a completionTime, and only the clean-up is left to do;
//   - ended by another controller: it is complete or failed without our times, and is never changed;
//   - started by another controller: it fails, and nothing is executed;
//   - running: it has a startTime.
//
// A phase is first pending. Then it is running, which is recorded with its intent before anything is done. Then it is complete or failed,
// which is recorded before the clean-up. A process that finds a phase running polls its function. If nothing was done yet, the phase is
// started. If it runs, it is awaited. If it has ended, that is recorded. If it is lost with the process that ran it, the phase fails. A
// phase whose intent another process has recorded is started after a write, so that nothing is started from a stale status.
//
// Templates are not trusted. They are rendered after the snapshot was created, or after the phase before was started. A process that takes
// over a run records that before it renders, and before it polls a running phase for the first time. When two processes have ended while they did so, the
// next one looks at no other ActionSet meanwhile (exclusion.go). If that one ends, too, the phase fails (RenderLost), so that no phase ends processes
// without end.
//
// A request of an old process may arrive at any time. Functions that leave Pods create them in two steps (phase.Ready): such a Pod
// does nothing until its UID is recorded, and is removed when its phase has ended. If the API server, and not only the cache, reports that
// the ActionSet is gone, the process that observes the Pod removes it.
//
// +kubebuilder:rbac:groups=cr.kanister.io,resources=actionsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cr.kanister.io,resources=actionsets/status;actionsets/finalizers,verbs=update
// +kubebuilder:rbac:groups=cr.kanister.io,resources=blueprints,verbs=get;list;watch
// +kubebuilder:rbac:groups=cr.kanister.io,resources=profiles,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=configmaps;namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package actionset
