// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actionset runs ActionSets. What comes next in a run is decided by a pure half, which is given what was observed, and says what
// to learn or to do:
//
//	plan.go      what is observed, what can be done, and the table of states (decide)
//	launch.go    what can be checked before anything is done
//	turn.go      a decision in the making, and the plan that it becomes; cancelling; the end
//	advance.go   one action, phase by phase
//	rendering.go  what is recorded before arguments are rendered of which a process may have ended
//	status.go    what the status says
//	params.go    what templates see: the frozen run, the outputs in the status, and what is read anew
//	desired.go   the frozen run, in a Secret of the ActionSet's own, which the status identifies
//	elsewhere.go what another controller has started or ended
//	budget.go    how large a status may become, and what is done when it was refused as too large
//	events.go    the events of a run, of which the last is in the status before it is posted
//	references.go, namespaces.go, subjectkind.go  what is refused of what an ActionSet names, and in which words
//	waiting.go     what phases wait for, as the status says it
//	profile.go, workload.go  what templates see of a Profile, and of the Pods of a subject
//
// The other half talks to the API server:
//
//	controller.go  the loop; one sync asks, decides and acts until there is nothing more to do at once
//	gather.go      what is observed before anything is decided
//	answer.go      answers to what a decision asks, by subjects.go and fetch.go
//	apply.go       the steps of a plan
//	freeze.go      the Secret with the frozen run: made, compared, removed
//	statusapi.go   whether the API server serves the status of ActionSets as a subresource; if not, nothing is executed
//	memory.go      what this process remembers; everything works without it
//
// States of an ActionSet: new (no status, or one by which nothing was begun); rejected or ended (a completionTime: nothing happens but
// tidying up); ended by another controller (complete or failed, without our times: never touched); begun by another controller (it is
// failed, and nothing is executed); in a run (a startTime). In a run the actions go on at the same time, the phases of each one after the other.
//
// A phase is pending; then running, which is recorded with its intent before anything is done; then complete or failed, which is
// recorded before what it has left is removed. So whoever finds a phase running asks its function: nothing was done yet (it is
// started), it runs (it is waited for), it has ended (that is recorded), or it is lost, with the process that held it. To start
// what another process has recorded is preceded by a write: from a status that is not the newest nothing is ever started.
//
// Templates are not trusted. They are rendered after the run is frozen or the phase before was started; a process that goes on with a run
// of another one records that before, and after two that ended so the phase fails (RenderLost): nothing ends processes for ever.
//
// What an old process has asked for may arrive at any time. Functions that leave Pods make them in two steps (phase.Ready): such a Pod
// does nothing until its UID is recorded, and is removed once its phase has ended. Where its ActionSet is gone, and the API server
// says so, not only the cache, whoever sees the Pod removes it.
//
// The decision may need to know more: then it asks, nothing is done, and it is decided again with the answers.
//
// +kubebuilder:rbac:groups=cr.kanister.io,resources=actionsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cr.kanister.io,resources=actionsets/status;actionsets/finalizers,verbs=update
// +kubebuilder:rbac:groups=cr.kanister.io,resources=blueprints,verbs=get;list;watch
// +kubebuilder:rbac:groups=cr.kanister.io,resources=profiles,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=configmaps;namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package actionset
