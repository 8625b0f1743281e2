// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller/machine"
	"millwright.dev/pkg/testing/perturbation"
)

// has is the number of switches that each Machine has in the end, by its name.
type has map[string]int

func createMachine(name string, count int) perturbation.Act {
	return perturbation.Act{Name: "create Machine " + name, Do: makeMachine(name, spec{"switches": int64(count)}), Until: settled(has{name: count}, 0)}
}

// createSecondMachine creates a Machine next to "a", which has the same number of switches.
func createSecondMachine(name string, count int) perturbation.Act {
	return perturbation.Act{Name: "create Machine " + name, Do: makeMachine(name, spec{"switches": int64(count)}), Until: settled(has{"a": count, name: count}, 0)}
}

func createMachineWithLever(name string) perturbation.Act {
	return perturbation.Act{Name: "create Machine " + name + ", its lever up", Do: makeMachine(name, spec{"switchPosition": "up"}), Until: settled(has{name: 1}, 0)}
}

func makeMachine(name string, wanted spec) func(context.Context, *perturbation.User) error {
	return func(ctx context.Context, user *perturbation.User) error {
		fields := spec{"flipDelaySeconds": int64(pace / time.Second), "flipIntervalSeconds": int64(pace / time.Second)}
		for field, value := range wanted {
			fields[field] = value
		}
		return createUseless(ctx, user, machines, map[string]any{"kind": "Machine", "metadata": map[string]any{"name": name}, "spec": fields})
	}
}

func createUseless(ctx context.Context, user *perturbation.User, resource schema.GroupVersionResource, object map[string]any) error {
	object["apiVersion"] = v1alpha1.GroupVersion.String()
	_, err := user.Client.Resource(resource).Namespace(user.Namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	return err
}

func scaleMachine(name string, count int) perturbation.Act {
	return perturbation.Act{
		Name: fmt.Sprintf("scale Machine %s to %d", name, count),
		Do: func(ctx context.Context, user *perturbation.User) error {
			return patchUseless(ctx, user, machines, name, map[string]any{"spec": spec{"switches": count}})
		},
		Until: settled(has{name: count}, 0),
	}
}

func flipAll(name string, count int) perturbation.Act {
	return perturbation.Act{
		Name: "move all switches up",
		Do: func(ctx context.Context, user *perturbation.User) error {
			all, err := switchesOf(ctx, user, name)
			for _, sw := range all {
				err = errors.Join(err, flipUp(ctx, user, sw.Name))
			}
			return err
		},
		Until: settled(has{name: count}, 0),
	}
}

// flipTwice moves the only switch of a Machine up, and again when it is down.
func flipTwice(name string) perturbation.Act {
	return perturbation.Act{
		Name: "move the switch up",
		Do: func(ctx context.Context, user *perturbation.User) error {
			all, err := switchesOf(ctx, user, name)
			if err != nil {
				return err
			}
			return flipUp(ctx, user, all[0].Name)
		},
		// The second move waits for the controller, and a killed controller is restarted only during Until.
		Until: func(ctx context.Context, user *perturbation.User) (bool, error) {
			all, err := switchesOf(ctx, user, name)
			if err != nil {
				return false, err
			}
			switch sw := all[0]; {
			case sw.Spec.Position != v1alpha1.PositionDown:
				return false, errors.New("the switch is up")
			case sw.Annotations["again"] == "":
				return false, patchUseless(ctx, user, switches, sw.Name, map[string]any{
					"metadata": map[string]any{"annotations": map[string]any{"again": "true"}}, "spec": spec{"position": "up"},
				})
			}
			return settled(has{name: 1}, 0)(ctx, user)
		},
	}
}

func flipUp(ctx context.Context, user *perturbation.User, name string) error {
	return patchUseless(ctx, user, switches, name, map[string]any{"spec": spec{"position": "up"}})
}

// hourBetween sets the interval between flips to an hour, and moves both switches of the Machine up: one is moved down.
func hourBetween(name string) perturbation.Act {
	return perturbation.Act{
		Name: "set an interval of an hour, and move both switches up",
		Do: func(ctx context.Context, user *perturbation.User) error {
			err := patchUseless(ctx, user, machines, name, map[string]any{"spec": spec{"flipIntervalSeconds": 3600}})
			if err != nil {
				return err
			}
			return flipAll(name, 2).Do(ctx, user)
		},
		Until: waiting(name, 1),
	}
}

// upWithinTheHour moves the switch up again that is down.
func upWithinTheHour(name string) perturbation.Act {
	return perturbation.Act{
		Name: "move the lower switch up again",
		Do: func(ctx context.Context, user *perturbation.User) error {
			all, err := switchesOf(ctx, user, name)
			for _, sw := range all {
				if sw.Spec.Position == v1alpha1.PositionDown {
					err = errors.Join(err, flipUp(ctx, user, sw.Name))
				}
			}
			return err
		},
		Until: waiting(name, 2),
	}
}

// relabel moves a switch from one Machine to the other by its label, so that both have to restore their number of two.
func relabel(from, to string) perturbation.Act {
	return perturbation.Act{
		Name: "label a switch of " + from + " for " + to,
		Do: func(ctx context.Context, user *perturbation.User) error {
			return labelOne(ctx, user, from, to)
		},
		Until: settled(has{from: 2, to: 2}, 0),
	}
}

// unlabel removes the label from one of two switches.
func unlabel(name string) perturbation.Act {
	return perturbation.Act{
		Name: "remove the label from a switch",
		Do: func(ctx context.Context, user *perturbation.User) error {
			return labelOne(ctx, user, name, nil)
		},
		Until: settled(has{name: 2}, 1),
	}
}

func labelOne(ctx context.Context, user *perturbation.User, of string, value any) error {
	all, err := switchesOf(ctx, user, of)
	if err != nil {
		return err
	}
	return patchUseless(ctx, user, switches, all[0].Name, map[string]any{"metadata": map[string]any{"labels": map[string]any{machine.LabelMachine: value}}})
}

func deleteSwitch(name string, count int) perturbation.Act {
	return perturbation.Act{
		Name: "delete a switch",
		Do: func(ctx context.Context, user *perturbation.User) error {
			all, err := switchesOf(ctx, user, name)
			if err != nil {
				return err
			}
			return user.Client.Resource(switches).Namespace(user.Namespace).Delete(ctx, all[0].Name, metav1.DeleteOptions{})
		},
		Until: settled(has{name: count}, 0),
	}
}

// makeSwitch creates a surplus switch. It is the newest, or within the same second the last by name.
func makeSwitch(name string, count int) perturbation.Act {
	return perturbation.Act{
		Name: "create a switch by hand",
		Do: func(ctx context.Context, user *perturbation.User) error {
			return createUseless(ctx, user, switches, map[string]any{
				"kind": "Switch", "metadata": map[string]any{"name": "zzz", "labels": map[string]any{machine.LabelMachine: name}}, "spec": spec{"position": "up"},
			})
		},
		Until: func(ctx context.Context, user *perturbation.User) (bool, error) {
			if _, err := user.Get(ctx, switches, "zzz"); !apierrors.IsNotFound(err) {
				return false, fmt.Errorf("the surplus switch still exists: %w", err)
			}
			return settled(has{name: count}, 0)(ctx, user)
		},
	}
}

// recreateMachine deletes a Machine and creates it again while the garbage collector deletes its switches, or when they are orphans. One
// of the orphans is up.
func recreateMachine(name string, count int, propagation metav1.DeletionPropagation) perturbation.Act {
	return perturbation.Act{
		Name: fmt.Sprintf("delete the Machine (%s), and create it again", propagation),
		Do: func(ctx context.Context, user *perturbation.User) error {
			all, err := switchesOf(ctx, user, name)
			if err != nil {
				return err
			}
			if err := awaitCollector(ctx, user); err != nil {
				return err
			}
			err = user.Client.Resource(machines).Namespace(user.Namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation})
			if err != nil {
				return err
			}
			if err := awaitGone(machines, name)(ctx, user); err != nil {
				return err
			}
			if propagation == metav1.DeletePropagationOrphan {
				if err := flipUp(ctx, user, all[0].Name); err != nil {
					return err
				}
			}
			return makeMachine(name, spec{"switches": int64(count)})(ctx, user)
		},
		Until: settled(has{name: count}, 0),
	}
}

// awaitCollector waits until the garbage collector watches Switches. It does not orphan objects of a kind whose CRD is up to half a minute
// old. The probe is a Switch that is deleted with its owner.
func awaitCollector(ctx context.Context, user *perturbation.User) error {
	configMaps := user.Client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(user.Namespace)
	owner, err := configMaps.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	reference := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "probe", "uid": string(owner.GetUID())}
	err = createUseless(ctx, user, switches, map[string]any{"kind": "Switch", "metadata": map[string]any{"name": "probe", "ownerReferences": []any{reference}}})
	if err != nil {
		return err
	}
	if err := configMaps.Delete(ctx, "probe", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return awaitGone(switches, "probe")(ctx, user)
}

// flickerSwitches adds two switches to a Machine's spec and reverts it.
func flickerSwitches(ctx context.Context, user *perturbation.User) error {
	m, err := readMachine(ctx, user, "a")
	if apierrors.IsNotFound(err) {
		return nil // there may be none during a flicker
	}
	if err != nil {
		return err
	}
	for _, count := range []int32{m.Spec.Switches + 2, m.Spec.Switches} {
		if err := patchUseless(ctx, user, machines, "a", map[string]any{"spec": spec{"switches": count}}); err != nil {
			return err
		}
	}
	return nil
}
