// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// State of an ActionSet or of a phase.
type State string

// States.
const (
	// StatePending: nothing was started yet.
	StatePending State = "pending"
	// StateRunning: it was started, or is about to be: this is recorded before anything is done.
	StateRunning State = "running"
	// StateFailed: it, or a part of it, has failed. Other parts of an ActionSet may still run; when all have ended, its condition
	// Failed is True.
	StateFailed State = "failed"
	// StateComplete: it has ended well.
	StateComplete State = "complete"
)

// ActionSetStatus is how a run goes.
type ActionSetStatus struct {
	// state is pending, running, failed or complete. It is failed as soon as anything has failed.
	// +optional
	State State `json:"state"`

	// actions are those of the spec, in the same order.
	// +optional
	// +listType=atomic
	Actions []ActionStatus `json:"actions,omitempty"`

	// error says what has failed last.
	// +optional
	Error Error `json:"error"`

	// progress of all phases together.
	// +optional
	Progress ActionProgress `json:"progress"`

	// startTime is when the run started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the run ended, well or not. Nothing happens after that.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// snapshot identifies the Secret with what the run is made from. A Secret that is another one, or has another content, is not used.
	// +optional
	Snapshot *RunSnapshot `json:"snapshot,omitempty"`

	// lastEvent is the event of the last failure, or of the end if all has ended well. It is recorded here before it is posted: a process
	// that does not know whether it was posted posts it again, under the same name.
	// +optional
	LastEvent *RunEvent `json:"lastEvent,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Progressing is True until the run has ended. Then either Complete or Failed is True. Cancelled is True if somebody
	// wanted it to end.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// RunSnapshot identifies the Secret with what a run is made from.
type RunSnapshot struct {
	// uid of the Secret.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// digest of its content: sha256: and 64 hexadecimal digits.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// RunEvent is an event on an ActionSet.
type RunEvent struct {
	// name is what the name of the event ends with, after that of its object and a dot.
	// +optional
	Name string `json:"name,omitempty"`

	// type is Normal or Warning.
	// +optional
	Type string `json:"type,omitempty"`

	// reason of the event.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message of the event.
	// +optional
	Message string `json:"message,omitempty"`

	// blueprint is the name of a Blueprint on which the same event is posted, if it is not empty.
	// +optional
	Blueprint string `json:"blueprint,omitempty"`
}

// Condition types of an ActionSet.
const (
	// ConditionProgressing is True until the run has ended.
	ConditionProgressing = "Progressing"
	// ConditionComplete is True when all has ended well.
	ConditionComplete = "Complete"
	// ConditionFailed is True when all has ended, and something has failed.
	ConditionFailed = "Failed"
	// ConditionCancelled is True from when it is known that somebody wants the run to end.
	ConditionCancelled = "Cancelled"
)

// Reasons of the conditions of an ActionSet. Progressing has that of a failure from when it is known; Failed has the same in the end.
const (
	// ReasonLaunching: what the run needs to start cannot be read at the moment.
	ReasonLaunching = "Launching"
	// ReasonRunning: phases run, and none has failed.
	ReasonRunning = "Running"
	// ReasonCompleted: all phases have ended well.
	ReasonCompleted = "Completed"
	// ReasonInvalid: the ActionSet, or what it names, cannot be run. Nothing was done.
	ReasonInvalid = "Invalid"
	// ReasonPhaseFailed: a phase has failed.
	ReasonPhaseFailed = "PhaseFailed"
	// ReasonDeferPhaseFailed: a deferPhase has failed.
	ReasonDeferPhaseFailed = "DeferPhaseFailed"
	// ReasonArtifactsFailed: output artifacts could not be rendered.
	ReasonArtifactsFailed = "ArtifactsFailed"
	// ReasonControllerRestarted: a phase ran while the controller ended, and cannot be found again.
	ReasonControllerRestarted = "ControllerRestarted"
	// ReasonStatusTooLarge: the API server has refused a status because it is too large. The run is cancelled, and outputs and artifacts are
	// not in the status.
	ReasonStatusTooLarge = "StatusTooLarge"
	// ReasonRunLost: the Secret with the frozen run is gone or was replaced, or the run was started by another controller.
	ReasonRunLost = "RunLost"
	// ReasonRenderLost: processes of the controller have ended while they rendered the arguments of a phase.
	ReasonRenderLost = "RenderLost"
	// ReasonCancelRequested: spec.cancel is true.
	ReasonCancelRequested = "CancelRequested"
	// ReasonDeleted: the ActionSet was deleted while it ran.
	ReasonDeleted = "Deleted"
)

// Error says what has failed.
type Error struct {
	// message says what has failed, and why.
	// +optional
	Message string `json:"message"`
}

// ActionProgress is the progress of all phases together.
type ActionProgress struct {
	// runningPhase is the name of the phase that runs; where several do, their names with commas between.
	// +optional
	RunningPhase string `json:"runningPhase,omitempty"`

	// percentCompleted is the mean over all phases, "0" to "100". No deferPhase counts.
	// +optional
	PercentCompleted string `json:"percentCompleted,omitempty"`

	// sizeDownloadedB is how many bytes were downloaded.
	// +optional
	SizeDownloadedB int64 `json:"sizeDownloadedB,omitempty"`

	// sizeUploadedB is how many bytes were uploaded.
	// +optional
	SizeUploadedB int64 `json:"sizeUploadedB,omitempty"`

	// estimatedDownloadSizeB is how many bytes are to be downloaded in all.
	// +optional
	EstimatedDownloadSizeB int64 `json:"estimatedDownloadSizeB,omitempty"`

	// estimatedUploadSizeB is how many bytes are to be uploaded in all.
	// +optional
	EstimatedUploadSizeB int64 `json:"estimatedUploadSizeB,omitempty"`

	// lastTransitionTime is when the progress was last written.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ActionStatus is how one action goes.
type ActionStatus struct {
	// name of the action, as in the spec.
	// +optional
	Name string `json:"name"`

	// object is the subject, as in the spec.
	// +optional
	Object ObjectReference `json:"object"`

	// blueprint is the name of the Blueprint, as in the spec.
	// +optional
	Blueprint string `json:"blueprint"`

	// phases are those of the Blueprint, in the same order.
	// +optional
	// +listType=atomic
	Phases []Phase `json:"phases,omitempty"`

	// artifacts are the output artifacts: the templates of the Blueprint until the action has ended well, and then their values.
	// +optional
	Artifacts map[string]Artifact `json:"artifacts,omitempty"`

	// deferPhase is that of the Blueprint; empty if there is none.
	// +optional
	DeferPhase Phase `json:"deferPhase"`
}

// Phase is how one phase goes.
type Phase struct {
	// name of the phase.
	// +optional
	Name string `json:"name"`

	// state is pending, running, failed or complete.
	// +optional
	State State `json:"state"`

	// output of the function.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Output *runtime.RawExtension `json:"output,omitempty"`

	// progress of the function.
	// +optional
	Progress PhaseProgress `json:"progress"`

	// intent is what the function was about to do when the phase was started, such as the name of the object that it creates. By it
	// what was done is found again.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Intent *runtime.RawExtension `json:"intent,omitempty"`

	// startedBy is the process that has started the phase. What it alone knows ends with it.
	// +optional
	StartedBy string `json:"startedBy,omitempty"`

	// startTime is when the phase was started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when it was known that the phase has ended, well or not.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// PhaseProgress is the progress of one phase.
type PhaseProgress struct {
	// progressPercent is "0" to "100".
	// +optional
	ProgressPercent string `json:"progressPercent,omitempty"`

	// sizeDownloadedB is how many bytes were downloaded.
	// +optional
	SizeDownloadedB int64 `json:"sizeDownloadedB,omitempty"`

	// sizeUploadedB is how many bytes were uploaded.
	// +optional
	SizeUploadedB int64 `json:"sizeUploadedB,omitempty"`

	// estimatedDownloadSizeB is how many bytes are to be downloaded in all.
	// +optional
	EstimatedDownloadSizeB int64 `json:"estimatedDownloadSizeB,omitempty"`

	// estimatedUploadSizeB is how many bytes are to be uploaded in all.
	// +optional
	EstimatedUploadSizeB int64 `json:"estimatedUploadSizeB,omitempty"`

	// estimatedTimeSeconds is how long the rest may take.
	// +optional
	EstimatedTimeSeconds int64 `json:"estimatedTimeSeconds,omitempty"`

	// lastTransitionTime is when the progress was last written.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
