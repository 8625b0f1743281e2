// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actionset runs ActionSets. The pure half gets what was observed, and decides what to ask or to do:
//
//	observed.go                   what a decision is made from, answers to asks included
//	plan.go                       asks, steps, and the table of states (decide)
//	planner.go                    builds the plan of a run, from the status as it is to be
//	start.go, validation.go       a run that starts: all is checked before anything is done
//	running.go, running_phase.go  a run that goes on: its actions concurrently, the phases of each one after the other
//	termination.go                cancelling, the end of a run, and what remains to be removed
//	foreign.go                    runs that another controller has started or ended
//	render_guard.go               what is recorded before templates are rendered that may have ended a process
//	status.go, size.go, waiting.go   the status, its size, and what phases wait for
//	desired.go                    the snapshot of a run, in a Secret of the ActionSet's own, which the status identifies
//	params.go, profile.go, workload.go, explain.go  what templates see, and how their errors are explained
//	events.go                     the events of a run; the last one is in the status before it is posted
//
// The other half talks to the API server:
//
//	controller.go                 the loop; one sync decides and acts until nothing is left to do without waiting
//	gather.go, gather_*.go        what is observed before the first decision, and the answers to asks
//	apply.go, apply_snapshot.go   the steps of a plan
//	statusapi.go                  whether the API server serves the status of ActionSets as a subresource; if not, nothing is executed
//	memory.go                     what this process remembers; everything works without it
//	metrics.go                    what is counted
//
// States of an ActionSet: new (no status, or one by which nothing was begun); rejected or ended (a completionTime: nothing happens but
// the clean-up); ended by another controller (complete or failed, without our times: never changed); begun by another controller (it is
// failed, and nothing is executed); running (a startTime).
//
// A phase is pending; then running, which is recorded with its intent before anything is done; then complete or failed, which is
// recorded before what it has left is removed. A process that finds a phase running polls its function: nothing was done yet (it is
// started), it runs (it is waited for), it has ended (that is recorded), or it is lost, with the process that ran it. A phase whose intent another
// process has recorded is started after a write: nothing is ever started from a stale status.
//
// Templates are not trusted. They are rendered after the snapshot was created or the phase before was started. A process that takes a run over
// records that before it renders; after two processes that ended so the phase fails (RenderLost), so that no template ends processes for ever.
//
// A request of an old process may arrive at any time. Functions that leave Pods create them in two steps (phase.Ready): such a Pod
// does nothing until its UID is recorded, and is removed once its phase has ended. If its ActionSet is gone according to the API server, and not
// only to the cache, the process that observes the Pod removes it.
//
// +kubebuilder:rbac:groups=cr.kanister.io,resources=actionsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cr.kanister.io,resources=actionsets/status;actionsets/finalizers,verbs=update
// +kubebuilder:rbac:groups=cr.kanister.io,resources=blueprints,verbs=get;list;watch
// +kubebuilder:rbac:groups=cr.kanister.io,resources=profiles,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=configmaps;namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package actionset
