// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

const (
	// scaleManager is the field manager for scale subresources.
	scaleManager = "millwright-scale"

	// readinessPoll and maxReadinessPoll are the first and the longest interval in which it is checked whether a workload is ready.
	readinessPoll, maxReadinessPoll = 500 * time.Millisecond, 2 * time.Second

	kindStatefulSet      = "statefulset"
	kindDeployment       = "deployment"
	kindDeploymentConfig = "deploymentconfig"
)

// ScaleWorkload sets the replicas of a Deployment or StatefulSet, or of an object of any kind with a scale subresource. If a controller
// owns the object, the owner is scaled instead: see scaledOwner.
//
// The request has the recorded UID and resourceVersion. So a late request has no effect: a later phase that scales the workload always writes it,
// which changes the resourceVersion. If another client has changed the workload since the resourceVersion was recorded, the new one is recorded
// first.
type ScaleWorkload struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Mapper  *Mapper
	Wake    func(phase.ID)

	reach   phase.Reach
	stopped stoppedCalls
	pace    *pace
	// scaled are the calls whose scale subresource this process has written.
	scaled sync.Map
}

var _ phase.Function = (*ScaleWorkload)(nil)

// scaleIntent is what is scaled, with its number of replicas before that (OriginalReplicaCount).
type scaleIntent struct {
	Kind            string    `json:"kind"`
	Namespace       string    `json:"namespace"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	// ScaledBefore is the phase that has scaled it last, if any has.
	ScaledBefore         string `json:"scaledBefore,omitempty"`
	OriginalReplicaCount int32  `json:"originalReplicaCount"`
	// Scale is the object whose scale subresource is written instead of the workload. For other kinds than Deployment and StatefulSet it is
	// always set.
	Scale *target `json:"scale,omitempty"`
}

// workload reports whether the object is a Deployment or a StatefulSet, whose Pods can be listed.
func (i scaleIntent) workload() bool { return i.Kind == kindStatefulSet || i.Kind == kindDeployment }

func (i scaleIntent) String() string { return fmt.Sprintf("%s %s/%s", i.Kind, i.Namespace, i.Name) }

// Validate implements Function.
func (s *ScaleWorkload) Validate(ctx context.Context, call phase.Call) (map[string]any, error) {
	intent, err := scaleTarget(call)
	if err != nil {
		return nil, err
	}
	if err := s.reach.Refuse(intent.Namespace, "scales "+intent.String()); err != nil {
		return nil, err
	}
	if !intent.workload() {
		return s.validateOther(ctx, intent)
	}
	return s.validateWorkload(ctx, intent)
}

// validateWorkload returns the intent for a Deployment or a StatefulSet.
func (s *ScaleWorkload) validateWorkload(ctx context.Context, intent scaleIntent) (map[string]any, error) {
	found, err := s.get(ctx, intent)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", intent, phase.Definitive(err))
	}
	if intent.Scale, err = s.scaledOwner(ctx, found); err != nil {
		return nil, err
	}
	if intent.Scale != nil {
		intent.UID = found.UID
		return s.validateScale(ctx, intent)
	}
	intent.UID, intent.ResourceVersion = found.UID, found.ResourceVersion
	intent.ScaledBefore, intent.OriginalReplicaCount = found.Annotations[phase.AnnotationScaled], found.replicas
	return phase.EncodeIntent(intent)
}

// Start implements Function.
func (s *ScaleWorkload) Start(ctx context.Context, call phase.Call) (phase.Observation, error) {
	var intent scaleIntent
	if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
		return phase.Observation{}, err
	}
	args, err := scaleArgs(call)
	if err == nil {
		err = s.reach.Refuse(intent.Namespace, "scales "+intent.String())
	}
	if err != nil {
		return phase.Ended(err)
	}
	if intent.Scale != nil {
		return s.startScale(ctx, call, intent, args)
	}
	scaled, err := s.patch(ctx, intent, map[string]any{
		"metadata": map[string]any{
			"uid": intent.UID, "resourceVersion": intent.ResourceVersion,
			"annotations": map[string]any{phase.AnnotationScaled: mark(call.ID)},
		},
		"spec": map[string]any{"replicas": args.Replicas},
	})
	switch {
	case err == nil:
		return s.observe(ctx, call, intent, args, scaled)
	case !apierrors.IsConflict(err):
		return phase.Ended(fmt.Errorf("scaling %s: %w", intent, phase.Definitive(err)))
	}
	// The workload has changed, perhaps by an earlier request of ours whose answer was lost.
	changed, err := s.get(ctx, intent)
	if err != nil {
		return phase.Ended(fmt.Errorf("reading %s: %w", intent, phase.Definitive(err)))
	}
	observed, err := s.observe(ctx, call, intent, args, changed)
	if err != nil || observed.State != phase.Idle {
		return observed, err
	}
	intent.ResourceVersion = changed.ResourceVersion
	renewed, err := phase.EncodeIntent(intent)
	return phase.Observation{State: phase.Ready, Intent: renewed}, err
}

// Poll implements Function.
func (s *ScaleWorkload) Poll(ctx context.Context, call phase.Call) (phase.Observation, error) {
	if s.stopped.has(call.ID) {
		return phase.Observation{State: phase.Stopped}, nil
	}
	return s.pace.poll(ctx, call, s.look)
}

// look reads the workload, or the object that is scaled instead, and its Pods.
func (s *ScaleWorkload) look(ctx context.Context, call phase.Call) (phase.Observation, error) {
	var intent scaleIntent
	if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
		return phase.Observation{}, err
	}
	args, err := scaleArgs(call)
	if err != nil {
		return phase.Ended(err)
	}
	if intent.Scale != nil {
		return s.pollScale(ctx, call, intent, args)
	}
	found, err := s.get(ctx, intent)
	if err != nil {
		return phase.Ended(fmt.Errorf("reading %s: %w", intent, phase.Definitive(err)))
	}
	return s.observe(ctx, call, intent, args, found)
}

// observe returns the state of the call for the observed workload.
func (s *ScaleWorkload) observe(
	ctx context.Context, call phase.Call, intent scaleIntent, args blueprint.ScaleWorkloadArgs, found *workload,
) (phase.Observation, error) {
	scaledBy := found.Annotations[phase.AnnotationScaled]
	disturbed := disturbance(intent, args.Replicas, found.replicas)
	switch {
	case found.UID != intent.UID:
		return phase.Ended(phase.Failf("%s was deleted, and another one has its name", intent))
	case scaledBy != mark(call.ID) && scaledBy != intent.ScaledBefore:
		return phase.Ended(phase.Failf("%s was scaled by another phase at the same time", intent))
	case scaledBy != mark(call.ID):
		return phase.Observation{State: phase.Idle}, nil
	case !ptr.Deref(args.WaitForReady, true):
	case disturbed != nil:
		return phase.Ended(disturbed)
	default:
		ready, err := s.ready(ctx, found)
		if err != nil {
			return phase.Ended(fmt.Errorf("looking for the Pods of %s: %w", intent, phase.Definitive(err)))
		}
		if !ready {
			return phase.Observation{State: phase.Running, PollAfter: pollAfter(time.Since(call.StartTime), readinessPoll, maxReadinessPoll),
				Waiting: phase.Waiting{For: fmt.Sprintf("%s to have %d replicas, and their Pods to run", intent, found.replicas)}}, nil
		}
	}
	return phase.Observation{State: phase.Succeeded, Output: map[string]any{"originalReplicaCount": int64(intent.OriginalReplicaCount)}}, nil
}

// disturbance returns a *phase.Failure if another client has scaled what was scaled, so that the phase has not done what it was for. An autoscaler that
// changes the number of a running workload is none: then the phase waits for that number.
func disturbance(what fmt.Stringer, wanted, live int32) error {
	if live == wanted || live > 0 && wanted > 0 {
		return nil
	}
	return phase.Failf("%s was scaled to %d, and then to %d by another client before it was ready", what, wanted, live)
}

// Cancel implements Function. The workload keeps the number of replicas that it was scaled to.
func (s *ScaleWorkload) Cancel(_ context.Context, call phase.Call) error {
	s.scaled.Delete(call.ID)
	s.pace.end(call.ID)
	s.stopped.add(call.ID)
	s.Wake(call.ID)
	return nil
}

// scaleTarget returns the object that the arguments name, or the subject of the action.
func scaleTarget(call phase.Call) (scaleIntent, error) {
	args, err := scaleArgs(call)
	if err != nil {
		return scaleIntent{}, err
	}
	var subject scaleIntent
	switch action := call.Action; {
	case action.StatefulSet != nil:
		subject = scaleIntent{Kind: kindStatefulSet, Namespace: action.StatefulSet.Namespace, Name: action.StatefulSet.Name}
	case action.Deployment != nil:
		subject = scaleIntent{Kind: kindDeployment, Namespace: action.Deployment.Namespace, Name: action.Deployment.Name}
	case action.Custom != nil:
		subject = scaleIntent{Kind: strings.ToLower(action.Custom.Kind) + "." + action.Custom.Group, Namespace: action.Custom.Namespace, Name: action.Custom.Name}
	}
	target := scaleIntent{
		Kind:      cmp.Or(strings.ToLower(args.Kind), subject.Kind),
		Namespace: cmp.Or(args.Namespace, subject.Namespace), Name: cmp.Or(args.Name, subject.Name),
	}
	switch {
	case target.Kind == "" || target.Namespace == "" || target.Name == "":
		return target, phase.Failf("Workload information not available via defaults or namespace/name/kind parameters")
	case phase.CheckName("the argument name", target.Name) != nil:
		return target, phase.CheckName("the argument name", target.Name)
	case phase.CheckNamespace("the argument namespace", target.Namespace) != nil:
		return target, phase.CheckNamespace("the argument namespace", target.Namespace)
	case target.Kind == kindDeploymentConfig:
		return target, phase.Failf("workloads of kind DeploymentConfig are not supported yet")
	}
	return target, nil
}

// scaleArgs decodes the arguments. It refuses an empty text as the number of replicas, which a template may return, instead of scaling to zero.
func scaleArgs(call phase.Call) (args blueprint.ScaleWorkloadArgs, err error) {
	text := strings.TrimSpace(fmt.Sprint(call.Args["replicas"]))
	replicas, err := strconv.ParseInt(text, 10, 32)
	if err != nil || replicas < 0 {
		return args, phase.Failf("invalid replicas %q: must be a whole number, 0 or more", text)
	}
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return args, phase.Failf("%v", err)
	}
	args.Replicas = int32(replicas)
	return args, nil
}
