// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller/machine"
	"millwright.dev/pkg/testing/perturbation"
)

func patchUseless(ctx context.Context, user *perturbation.User, resource schema.GroupVersionResource, name string, fields map[string]any) error {
	patch, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = user.Client.Resource(resource).Namespace(user.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func readMachine(ctx context.Context, user *perturbation.User, name string) (*v1alpha1.Machine, error) {
	object, err := user.Get(ctx, machines, name)
	if err != nil {
		return nil, err
	}
	return typed[v1alpha1.Machine](object)
}

// switchesOf returns the switches that the Machine owns, sorted by name. It returns an error if there are none.
func switchesOf(ctx context.Context, user *perturbation.User, name string) (owned []*v1alpha1.Switch, err error) {
	m, err := readMachine(ctx, user, name)
	if err != nil {
		return nil, err
	}
	list, err := user.Client.Resource(switches).Namespace(user.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if !metav1.IsControlledBy(&list.Items[i], m) {
			continue
		}
		sw, err := typed[v1alpha1.Switch](&list.Items[i])
		if err != nil {
			return nil, err
		}
		owned = append(owned, sw)
	}
	if len(owned) == 0 {
		return nil, fmt.Errorf("Machine %s has no switches", name)
	}
	return owned, nil
}

// settled reports whether each Machine has its number of switches, all switches and levers are down, no flip is in progress, and there are
// no other switches but this number of orphans.
func settled(wanted has, orphans int) until {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		total := orphans
		for name, count := range wanted {
			total += count
			m, err := readMachine(ctx, user, name)
			if err != nil {
				return false, err
			}
			status := m.Status
			if m.Spec.SwitchPosition != "" && m.Spec.SwitchPosition != v1alpha1.PositionDown || status.SeenAt != nil || status.Flip != nil ||
				status.ObservedGeneration != m.Generation || int(status.Replicas) != count || status.Positions != strings.Repeat("d", count) ||
				!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
				return false, fmt.Errorf("Machine %s of generation %d: lever %q, status %+v", name, m.Generation, m.Spec.SwitchPosition, status)
			}
			owned, err := switchesOf(ctx, user, name)
			if err != nil || len(owned) != count {
				return false, errors.Join(err, fmt.Errorf("Machine %s has %d switches", name, len(owned)))
			}
			for _, sw := range owned {
				if sw.DeletionTimestamp != nil || sw.Spec.Position != v1alpha1.PositionDown || sw.Status.SeenAt != nil ||
					sw.Labels[machine.LabelMachine] != name {
					return false, fmt.Errorf("Machine %s has the Switch %+v", name, sw)
				}
			}
		}
		list, err := user.Client.Resource(switches).Namespace(user.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != total {
			err = fmt.Errorf("got %d switches, want %d", len(list.Items), total)
		}
		return err == nil, err
	}
}

// waiting reports whether this number of the Machine's two switches wait to be moved down, and no flip is in progress.
func waiting(name string, up int) until {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		m, err := readMachine(ctx, user, name)
		if err != nil {
			return false, err
		}
		owned, err := switchesOf(ctx, user, name)
		if err != nil {
			return false, err
		}
		for _, sw := range owned {
			if isUp := sw.Spec.Position == "up"; isUp != (sw.Status.SeenAt != nil) || sw.Status.ObservedGeneration != sw.Generation {
				return false, fmt.Errorf("Switch %s of generation %d is %s, status %+v", sw.Name, sw.Generation, sw.Spec.Position, sw.Status)
			}
		}
		status := m.Status
		if len(owned) != 2 || status.Flip != nil || status.LastFlipTime == nil || status.ObservedGeneration != m.Generation ||
			len(status.Positions) != 2 || strings.Count(status.Positions, "u") != up {
			return false, fmt.Errorf("Machine %s of generation %d has %d switches: %+v", name, m.Generation, len(owned), status)
		}
		return true, nil
	}
}
