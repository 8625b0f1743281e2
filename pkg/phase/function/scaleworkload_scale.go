// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// kindOf has the kinds of workloads by their resource, which users may name in any way that kubectl accepts, too.
var kindOf = map[schema.GroupResource]string{
	{Group: "apps", Resource: "deployments"}:  kindDeployment,
	{Group: "apps", Resource: "statefulsets"}: kindStatefulSet,
}

// validateOther returns the intent for an object of any other kind, or of another name for the kind.
func (s *ScaleWorkload) validateOther(ctx context.Context, intent scaleIntent) (map[string]any, error) {
	found, err := s.Mapper.named(ctx, schema.ParseGroupResource(strings.ToLower(intent.Kind)))
	switch {
	case meta.IsNoMatchError(err):
		return nil, phase.Failf("Workload type not supported %s: the API server serves no such kind", intent.Kind)
	case err != nil:
		return nil, fmt.Errorf("looking for the kind %s: %w", intent.Kind, err)
	case !found.scalable:
		return nil, phase.Failf("Workload type not supported %s: it has no scale subresource", intent.Kind)
	}
	if kind, ok := kindOf[found.GroupResource()]; ok {
		intent.Kind = kind
		return s.validateWorkload(ctx, intent)
	}
	named := found.target(intent.Namespace, intent.Name)
	intent.Kind, intent.Namespace = found.GroupResource().String(), named.Namespace
	object, err := s.Dynamic.Resource(found.GroupVersionResource).Namespace(named.Namespace).Get(phase.OnlyMetadata(ctx), named.Name, metav1.GetOptions{})
	err = s.Mapper.stillServed(found.GroupVersionResource, err)
	switch {
	case apierrors.IsForbidden(err): // its owners cannot be read
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", intent, phase.Definitive(err))
	default:
		if intent.Scale, err = s.scaledOwner(ctx, object); err != nil {
			return nil, err
		}
	}
	if intent.Scale == nil {
		intent.Scale = &named
	}
	return s.validateScale(ctx, intent)
}

// validateScale adds the observed scale subresource to the intent.
func (s *ScaleWorkload) validateScale(ctx context.Context, intent scaleIntent) (map[string]any, error) {
	if err := s.reach.Refuse(intent.Scale.Namespace, "scales "+intent.Scale.String()); err != nil {
		return nil, err
	}
	found, err := s.getScale(ctx, *intent.Scale)
	if err != nil {
		return nil, fmt.Errorf("reading the scale of %s: %w", intent.Scale, phase.Definitive(err))
	}
	intent.Scale, intent.OriginalReplicaCount = &found.target, found.replicas
	return phase.EncodeIntent(intent)
}

// startScale writes the scale subresource, with the recorded resourceVersion as a precondition.
func (s *ScaleWorkload) startScale(ctx context.Context, call phase.Call, intent scaleIntent, args blueprint.ScaleWorkloadArgs) (phase.Observation, error) {
	written, err := s.putScale(ctx, *intent.Scale, args.Replicas)
	if err == nil {
		s.scaled.Store(call.ID, true)
		return s.observeScale(ctx, call, intent, args, written)
	}
	if !apierrors.IsConflict(err) {
		return phase.Ended(fmt.Errorf("scaling %s: %w", intent.Scale, phase.Definitive(err)))
	}
	// The object has changed, perhaps by an earlier request of ours whose answer was lost.
	changed, err := s.getScale(ctx, *intent.Scale)
	if err != nil {
		return phase.Ended(fmt.Errorf("reading the scale of %s: %w", intent.Scale, phase.Definitive(err)))
	}
	observed, err := s.observeScale(ctx, call, intent, args, changed)
	if err != nil || observed.State != phase.Idle {
		return observed, err
	}
	intent.Scale = &changed.target
	renewed, err := phase.EncodeIntent(intent)
	return phase.Observation{State: phase.Ready, Intent: renewed}, err
}

func (s *ScaleWorkload) pollScale(ctx context.Context, call phase.Call, intent scaleIntent, args blueprint.ScaleWorkloadArgs) (phase.Observation, error) {
	found, err := s.getScale(ctx, *intent.Scale)
	if err != nil {
		return phase.Ended(fmt.Errorf("reading the scale of %s: %w", intent.Scale, phase.Definitive(err)))
	}
	return s.observeScale(ctx, call, intent, args, found)
}

// observeScale returns the state of the call for the observed scale subresource.
func (s *ScaleWorkload) observeScale(
	ctx context.Context, call phase.Call, intent scaleIntent, args blueprint.ScaleWorkloadArgs, found scale,
) (phase.Observation, error) {
	_, written := s.scaled.Load(call.ID)
	waits := ptr.Deref(args.WaitForReady, true)
	disturbed := disturbance(intent.Scale, args.Replicas, found.replicas)
	switch {
	case found.UID != intent.Scale.UID:
		return phase.Ended(phase.Failf("%s was deleted, and another one has its name", intent.Scale))
	case found.replicas != args.Replicas && !written:
		return phase.Observation{State: phase.Idle}, nil
	case disturbed != nil && waits:
		return phase.Ended(disturbed)
	case waits:
		ready, err := s.followed(ctx, intent, found)
		if err != nil {
			return phase.Ended(err)
		}
		if !ready {
			return phase.Observation{
				State: phase.Running, PollAfter: pollAfter(time.Since(call.StartTime), readinessPoll, maxReadinessPoll),
				Waiting: phase.Waiting{For: fmt.Sprintf("%s to have %d replicas, and their Pods to run, after %s was scaled", intent, found.replicas, intent.Scale)},
			}, nil
		}
	}
	s.scaled.Delete(call.ID)
	return phase.Observation{State: phase.Succeeded, Output: map[string]any{"originalReplicaCount": int64(intent.OriginalReplicaCount)}}, nil
}

// followed reports whether the scaled object has the replicas of its scale: the workload of the owner with its Pods, or the object itself according to its
// status.
func (s *ScaleWorkload) followed(ctx context.Context, intent scaleIntent, found scale) (bool, error) {
	if !intent.workload() {
		return found.current == found.replicas, nil
	}
	workload, err := s.get(ctx, intent)
	switch {
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", intent, phase.Definitive(err))
	case workload.UID != intent.UID:
		return false, phase.Failf("%s was deleted, and another one has its name", intent)
	case workload.replicas != found.replicas:
		return false, nil
	}
	ready, err := s.ready(ctx, workload)
	if err != nil {
		return false, fmt.Errorf("looking for the Pods of %s: %w", intent, phase.Definitive(err))
	}
	return ready, nil
}
