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
	// podPoll is how often a Pod is read that is not watched.
	podPoll = time.Second
	// podNet is how often one that is watched is looked at all the same. It keeps the watch going too.
	podNet = 5 * time.Minute
)

// Planner returns the plan of the Pod of a call. It may send requests to the API server as long as the call has no intent.
type Planner func(ctx context.Context, call phase.Call) (Plan, error)

// Function is a function that makes one Pod: KubeTask, MultiContainerRun, PrepareData.
//
// The Pod is made gated, so that it does nothing, under a name that is the same in every process. When its UID is recorded it is let
// go, by a patch that is refused of any other UID. So a request that arrives late makes at most a Pod that does nothing.
type Function struct {
	runs *Runs
	plan Planner
}

var _ phase.Leaver = (*Function)(nil)

// Function returns the Function that makes the Pods of that plan. Without a plan it only reports what a phase has left, and removes it.
func (r *Runs) Function(plan Planner) *Function {
	return &Function{runs: r, plan: plan}
}

// Intent names the Pod, and what has to be known of it without the arguments.
type Intent struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// UID is of the only Pod that may go; "" as long as none may.
	UID types.UID `json:"uid,omitempty"`
	// Container prints the outputs.
	Container string `json:"container"`
	// ReadOnly are the claims that are mounted so.
	ReadOnly []string `json:"readOnly,omitempty"`
	// IgnoreFailure: the phase succeeds although the Pod fails.
	IgnoreFailure bool `json:"ignoreFailure,omitempty"`
}

func ReadIntent(call phase.Call) (intent Intent, err error) {
	if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
		return intent, fmt.Errorf("reading what phase %s is to do: %w", call.ID, err)
	}
	return intent, nil
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
		err = f.runs.operator.Refuse(pod.Namespace, "creates a Pod")
	}
	if err != nil {
		return nil, err
	}
	return phase.EncodeIntent(Intent{
		Namespace: pod.Namespace, Pod: pod.Name, Container: plan.Main, ReadOnly: plan.ReadOnly, IgnoreFailure: plan.IgnoreFailure,
	})
}

// Start implements Function: it makes the Pod, or lets it go when its UID is recorded.
func (f *Function) Start(ctx context.Context, call phase.Call) (phase.Observation, error) {
	intent, err := ReadIntent(call)
	if err != nil {
		return phase.Observation{}, err
	}
	if err := f.runs.operator.Refuse(intent.Namespace, "creates a Pod"); err != nil {
		return phase.Ended(err)
	}
	f.runs.watches.use(intent.Namespace)
	if intent.UID == "" {
		return f.create(ctx, call, intent)
	}
	pod, err := f.runs.client.CoreV1().Pods(intent.Namespace).
		Patch(ctx, intent.Pod, types.StrategicMergePatchType, ungate(intent.UID), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return f.gone(ctx, call, intent)
	}
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) { // so the patch of another UID is refused, but not only that
		found, readErr := f.read(ctx, intent)
		if readErr == nil && (found == nil || found.UID != intent.UID) {
			return f.gone(ctx, call, intent)
		}
		err = cmp.Or(readErr, err)
	}
	if err != nil {
		return phase.Ended(fmt.Errorf("letting %s go: %w", intent, phase.Definitive(err)))
	}
	f.runs.release(f.runs.run(call.ID, intent.UID))
	_, watched := f.runs.watches.get(intent.Namespace, intent.Pod)
	return f.observe(ctx, call, intent, pod, watched)
}

// create the Pod. If it is there already, from a Start whose end was not seen, that is the one.
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
	made, err := f.runs.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
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
	pod, watched := f.runs.watches.get(intent.Namespace, intent.Pod)
	cancelled := f.runs.isCancelled(call.ID)
	if pod == nil && intent.UID == "" && !cancelled {
		return phase.Observation{State: phase.Idle}, nil // Start finds out whether it is there all the same
	}
	// A Pod that the cache does not have, or has in an older life, may be there; one that was cancelled may have gone.
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

// read the Pod from the API server; nil if there is none.
func (f *Function) read(ctx context.Context, intent Intent) (*corev1.Pod, error) {
	pod, err := f.runs.client.CoreV1().Pods(intent.Namespace).Get(ctx, intent.Pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", intent, phase.Definitive(err))
	}
	return pod, nil
}

// unrecorded is a call whose Pod may not go yet.
func (f *Function) unrecorded(call phase.Call, intent Intent, pod *corev1.Pod) (phase.Observation, error) {
	ours := pod != nil && isOf(pod, call.ID)
	switch cancelled := f.runs.isCancelled(call.ID); {
	case !ours && cancelled:
		return phase.Observation{State: phase.Stopped}, nil
	case pod == nil:
		return phase.Observation{State: phase.Idle}, nil
	case !ours:
		return phase.Observation{State: phase.Failed, Message: apierrors.NewAlreadyExists(corev1.Resource("pods"), intent.Pod).Error()}, nil
	case pod.DeletionTimestamp != nil:
		// Its name is free when it has gone.
		return phase.Observation{State: phase.Running, PollAfter: podPoll, Waiting: phase.Waiting{For: intent.String() + ", which was deleted, to go"}}, nil
	}
	intent.UID = pod.UID
	recorded, err := phase.EncodeIntent(intent)
	return phase.Observation{State: phase.Ready, Intent: recorded}, err
}

// gone is a call whose Pod is not there any more.
func (f *Function) gone(ctx context.Context, call phase.Call, intent Intent) (phase.Observation, error) {
	if f.runs.isCancelled(call.ID) {
		return phase.Observation{State: phase.Stopped}, nil
	}
	if pod := f.runs.endedPod(f.runs.run(call.ID, intent.UID)); pod != nil {
		return f.observe(ctx, call, intent, pod, true)
	}
	return podFailure(call, intent.Pod, "Failed while waiting for Pod to complete: the Pod was deleted before its end was seen"), nil
}
