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
	// StateRunning: it was started, or is about to be started: this is recorded before anything is done.
	StateRunning State = "running"
	// StateFailed: it, or a part of it, has failed. Other parts of an ActionSet may still run; when all have ended, its condition
	// Failed is True.
	StateFailed State = "failed"
	// StateComplete: it has succeeded.
	StateComplete State = "complete"
)

// ActionSetStatus is the state of a run.
type ActionSetStatus struct {
	// state is pending, running, failed or complete. It is failed as soon as anything has failed.
	// +optional
	State State `json:"state"`

	// actions are those of the spec, in the same order.
	// +optional
	// +listType=atomic
	Actions []ActionStatus `json:"actions,omitempty"`

	// error describes the last failure.
	// +optional
	Error Error `json:"error"`

	// progress of all phases together.
	// +optional
	Progress ActionProgress `json:"progress"`

	// startTime is when the run started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the run ended, whether it succeeded or failed. Nothing happens after that.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// snapshot identifies the Secret with the snapshot of the run. A Secret with another UID or other content is not used.
	// +optional
	Snapshot *RunSnapshot `json:"snapshot,omitempty"`

	// lastEvent is the event of the last failure, or of the end of a run that succeeded. It is recorded here before it is posted: a process
	// that does not know whether it was posted posts it again, under the same name.
	// +optional
	LastEvent *RunEvent `json:"lastEvent,omitempty"`

	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Progressing is True until the run has ended. Then either Complete or Failed is True. Cancelled is True if the run was
	// cancelled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// RunSnapshot identifies the Secret with the snapshot of a run.
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
	// name is the last part of the name of the event, after the name of its object and a dot.
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
	// ConditionComplete is True when all phases have succeeded.
	ConditionComplete = "Complete"
	// ConditionFailed is True when all has ended, and something has failed.
	ConditionFailed = "Failed"
	// ConditionCancelled is True as soon as the controller has observed that the run is to be cancelled.
	ConditionCancelled = "Cancelled"
)

// Reasons of the conditions of an ActionSet. Progressing has the reason of a failure as soon as it is known; Failed has the same reason when
// the run has ended.
const (
	// ReasonLaunching: what the run needs to start cannot be read at the moment.
	ReasonLaunching = "Launching"
	// ReasonRunning: phases run, and none has failed.
	ReasonRunning = "Running"
	// ReasonCompleted: all phases have succeeded.
	ReasonCompleted = "Completed"
	// ReasonInvalid: the ActionSet, or what it names, cannot be run. Nothing was done.
	ReasonInvalid = "Invalid"
	// ReasonPhaseFailed: a phase has failed.
	ReasonPhaseFailed = "PhaseFailed"
	// ReasonDeferPhaseFailed: a deferPhase has failed.
	ReasonDeferPhaseFailed = "DeferPhaseFailed"
	// ReasonArtifactsFailed: output artifacts could not be rendered.
	ReasonArtifactsFailed = "ArtifactsFailed"
	// ReasonControllerRestarted: the controller ended while a phase ran, and the result of the phase is not known.
	ReasonControllerRestarted = "ControllerRestarted"
	// ReasonStatusTooLarge: the API server has rejected a status because it is too large. The run is cancelled, and outputs and artifacts are
	// not in the status.
	ReasonStatusTooLarge = "StatusTooLarge"
	// ReasonRunLost: the Secret with the snapshot was deleted, was replaced, or cannot be read, or the run was started by another controller.
	ReasonRunLost = "RunLost"
	// ReasonRenderLost: two processes of the controller have ended while they rendered the arguments of a phase, or observed it for the first time.
	ReasonRenderLost = "RenderLost"
	// ReasonCancelRequested: spec.cancel is true.
	ReasonCancelRequested = "CancelRequested"
	// ReasonDeleted: the ActionSet was deleted while it ran.
	ReasonDeleted = "Deleted"
)

// Error describes a failure.
type Error struct {
	// message is what has failed, and why.
	// +optional
	Message string `json:"message"`
}

// ActionProgress is the progress of all phases together.
type ActionProgress struct {
	// runningPhase is the name of the phase that runs. If several run, their names are separated by commas; of more than ten, the last part is
	// "and N more".
	// +optional
	RunningPhase string `json:"runningPhase,omitempty"`

	// percentCompleted is the mean over all phases except deferPhases, "0" to "100".
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

// ActionStatus is the state of one action.
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

	// artifacts are the output artifacts: the templates of the Blueprint until the action has succeeded, then their values.
	// +optional
	Artifacts map[string]Artifact `json:"artifacts,omitempty"`

	// deferPhase is that of the Blueprint; empty if there is none.
	// +optional
	DeferPhase Phase `json:"deferPhase"`
}

// Phase is the state of one phase.
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

	// intent is what the function was about to do when the phase was started, such as the name of the object that it creates. After a
	// restart the controller uses it to find what was done.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Intent *runtime.RawExtension `json:"intent,omitempty"`

	// startedBy is the process that has started the phase. What is only in its memory is lost when it ends. While another process is about to render
	// the arguments of the phase, or to observe it for the first time, that process is added, after a comma.
	// +optional
	StartedBy string `json:"startedBy,omitempty"`

	// startTime is when the phase was started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the controller observed that the phase has ended, whether it succeeded or failed.
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

	// estimatedTimeSeconds is the estimated time until the phase ends, in seconds.
	// +optional
	EstimatedTimeSeconds int64 `json:"estimatedTimeSeconds,omitempty"`

	// lastTransitionTime is when the progress was last written.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
