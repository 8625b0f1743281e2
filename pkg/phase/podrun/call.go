// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/phase"
)

const (
	// podPoll is the interval in which a Pod is read that is not watched.
	podPoll = time.Second
	// watchedPodPoll is the same for a Pod that is watched. It also keeps the watch running.
	watchedPodPoll = 5 * time.Minute
)

// Planner returns the plan of the Pod of a call. It may send requests to the API server as long as the call has no intent.
type Planner func(ctx context.Context, call phase.Call) (Plan, error)

// Function is a function that makes one Pod: KubeTask, MultiContainerRun, PrepareData.
//
// The Pod is created with a scheduling gate, so that it does nothing, under a name that is the same in every process. When its UID is recorded,
// the Pod is released by a patch that the API server refuses for any other UID. So a late request creates at most a Pod that does nothing.
type Function struct {
	runs *Runs
	plan Planner
}

var _ phase.Leaver = (*Function)(nil)

// Function returns the Function that makes the Pods of a plan. Without a plan it only reports what a phase has left, and removes it.
func (r *Runs) Function(plan Planner) *Function {
	return &Function{runs: r, plan: plan}
}

// Intent identifies the Pod, and has what is needed later without the arguments.
type Intent struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Nonce is on the Pod; "" if an earlier release of the operator has recorded the intent.
	Nonce string `json:"nonce,omitempty"`
	// UID of the only Pod that may be released; "" until one is recorded.
	UID types.UID `json:"uid,omitempty"`
	// Container prints the outputs.
	Container string `json:"container"`
	// ReadOnly are the claims that are mounted read-only.
	ReadOnly []string `json:"readOnly,omitempty"`
	// IgnoreFailure: the phase succeeds although the Pod fails.
	IgnoreFailure bool `json:"ignoreFailure,omitempty"`
}

// ReadIntent returns the intent of a call.
func ReadIntent(call phase.Call) (intent Intent, err error) {
	if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
		return intent, fmt.Errorf("reading what phase %s is to do: %w", call.ID, err)
	}
	return intent, nil
}

// isOf reports whether a Pod was made for this intent.
func (i Intent) isOf(pod *corev1.Pod, id phase.ID) bool {
	return hasLabelsOf(pod, id) && (i.Nonce == "" || pod.Annotations[phase.AnnotationNonce] == i.Nonce)
}

func (i Intent) String() string { return "Pod " + i.Namespace + "/" + i.Pod }

// Validate implements Function.
func (f *Function) Validate(ctx context.Context, call phase.Call) (map[string]any, error) {
	plan, err := f.plan(ctx, call)
	if err != nil {
		return nil, err
	}
	pod, err := plan.build(call, f.runs.serviceAccount)
	if err == nil {
		err = f.runs.reach.Refuse(pod.Namespace, "creates a Pod")
	}
	if err != nil {
		return nil, err
	}
	return phase.EncodeIntent(Intent{
		Namespace: pod.Namespace, Pod: pod.Name, Nonce: phase.NewNonce(), Container: plan.Main, ReadOnly: plan.ReadOnly, IgnoreFailure: plan.IgnoreFailure,
	})
}

// Start implements phase.Function: it creates the Pod, or releases it when its UID is recorded.
func (f *Function) Start(ctx context.Context, call phase.Call) (phase.Observation, error) {
	intent, err := ReadIntent(call)
	if err != nil {
		return phase.Observation{}, err
	}
	if err := f.runs.reach.Refuse(intent.Namespace, "creates a Pod"); err != nil {
		return phase.Ended(err)
	}
	if intent.UID == "" {
		return f.create(ctx, call, intent)
	}
	pod, err := f.runs.client.CoreV1().Pods(intent.Namespace).
		Patch(ctx, intent.Pod, types.StrategicMergePatchType, ungate(intent.UID, time.Now()), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return f.gone(ctx, call, intent)
	}
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) { // another Pod may have the name, or there is another reason
		found, readErr := f.read(ctx, intent)
		if readErr == nil && (found == nil || found.UID != intent.UID) {
			return f.gone(ctx, call, intent)
		}
		err = cmp.Or(readErr, err)
	}
	if err != nil {
		return phase.Ended(fmt.Errorf("removing the scheduling gate of %s: %w", intent, phase.Definitive(err)))
	}
	f.runs.release(f.runs.run(call.ID, intent.UID))
	_, watched := f.runs.watches.get(intent, call.ID.Namespace)
	return f.observe(ctx, call, intent, pod, watched)
}

// create creates the Pod, unless an earlier Start has created it.
func (f *Function) create(ctx context.Context, call phase.Call, intent Intent) (phase.Observation, error) {
	plan, err := f.plan(ctx, call)
	if err != nil {
		return phase.Ended(err)
	}
	pod, err := plan.build(call, f.runs.serviceAccount)
	if err != nil {
		return phase.Ended(err)
	}
	pod.Namespace, pod.Name = intent.Namespace, intent.Pod
	if intent.Nonce != "" {
		pod.Annotations[phase.AnnotationNonce] = intent.Nonce
	}
	made, err := f.runs.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	_, refused := phase.FailureOf(phase.Definitive(err))
	refused = refused && !apierrors.IsAlreadyExists(err)
	f.runs.noteCreate(call.ID, refused)
	if !refused {
		f.runs.watches.use(pod.Namespace, call.ID.Namespace) // it has synced when the Pod is released, and shows one whose answer was lost
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		if made, err = f.read(ctx, intent); err != nil {
			return phase.Ended(err)
		}
		return f.unrecorded(call, intent, made)
	case err != nil:
		return phase.Ended(fmt.Errorf("creating %s: %w", intent, phase.Definitive(err)))
	default:
		return f.unrecorded(call, intent, made)
	}
}

// Poll implements Function.
func (f *Function) Poll(ctx context.Context, call phase.Call) (phase.Observation, error) {
	intent, err := ReadIntent(call)
	if err != nil {
		return phase.Observation{}, err
	}
	pod, watched := f.runs.watches.get(intent, call.ID.Namespace)
	cancelled := f.runs.isCancelled(call.ID)
	if pod == nil && intent.UID == "" && !cancelled {
		return phase.Observation{State: phase.Idle}, nil // Start finds out whether the Pod exists
	}
	// The cache may be stale: the Pod may exist although the cache has none or one with another UID, and a cancelled one may be gone.
	if pod == nil || !watched || cancelled || pod.UID != cmp.Or(intent.UID, pod.UID) {
		watched = false
		if pod, err = f.read(ctx, intent); err != nil {
			return phase.Ended(err)
		}
	}
	if intent.UID == "" {
		return f.unrecorded(call, intent, pod)
	}
	if pod == nil || pod.UID != intent.UID {
		return f.gone(ctx, call, intent)
	}
	return f.observe(ctx, call, intent, pod, watched)
}

// read returns the Pod from the API server; nil if there is none, or its namespace is gone.
func (f *Function) read(ctx context.Context, intent Intent) (*corev1.Pod, error) {
	pod, err := f.runs.client.CoreV1().Pods(intent.Namespace).Get(ctx, intent.Pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || f.runs.refusedAsGone(ctx, intent.Namespace, err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", intent, phase.Definitive(err))
	}
	return pod, nil
}

// unrecorded observes a call whose Pod may not be released yet.
func (f *Function) unrecorded(call phase.Call, intent Intent, pod *corev1.Pod) (phase.Observation, error) {
	ours := pod != nil && intent.isOf(pod, call.ID)
	switch cancelled := f.runs.isCancelled(call.ID); {
	case !ours && cancelled:
		return phase.Observation{State: phase.Stopped}, nil
	case pod == nil:
		return phase.Observation{State: phase.Idle}, nil
	case !ours:
		return phase.Observation{State: phase.Failed, Message: apierrors.NewAlreadyExists(corev1.Resource("pods"), intent.Pod).Error()}, nil
	case pod.DeletionTimestamp != nil:
		// The name can be used again when the Pod is gone.
		waiting := phase.Waiting{For: intent.String() + ", which is being deleted, to be gone"}
		return phase.Observation{State: phase.Running, PollAfter: podPoll, Waiting: waiting}, nil
	}
	intent.UID = pod.UID
	recorded, err := phase.EncodeIntent(intent)
	return phase.Observation{State: phase.Ready, Intent: recorded}, err
}

// gone observes a call whose Pod does not exist any more.
func (f *Function) gone(ctx context.Context, call phase.Call, intent Intent) (phase.Observation, error) {
	if f.runs.isCancelled(call.ID) {
		return phase.Observation{State: phase.Stopped}, nil
	}
	if pod := f.runs.endedPod(f.runs.run(call.ID, intent.UID)); pod != nil {
		return f.observe(ctx, call, intent, pod, true)
	}
	return podFailure(call, intent.Pod, "Failed while waiting for Pod to complete: the Pod was deleted before its end was observed"), nil
}
