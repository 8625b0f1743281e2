// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

const (
	// LabelMachine is the label that selects the switches of a Machine without a selector: its value is the Machine's name.
	LabelMachine = "machine"

	namePrefix = "switch-"
	// nameLength is how many characters of a name differ between switches.
	nameLength = 5
)

var machineKind = schema.GroupVersion(v1alpha1.GroupVersion).WithKind("Machine")

// labelSelector returns the Machine's selector, or the default.
func labelSelector(machine *v1alpha1.Machine) *metav1.LabelSelector {
	if machine.Spec.Selector != nil {
		return machine.Spec.Selector
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{LabelMachine: machine.Name}}
}

// parseSelector returns the selector in force, or an error with the reason why it is invalid.
func parseSelector(machine *v1alpha1.Machine) (labels.Selector, error) {
	wanted := labelSelector(machine)
	selector, err := metav1.LabelSelectorAsSelector(wanted)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if !selector.Matches(labels.Set(wanted.MatchLabels)) {
		return nil, fmt.Errorf("spec.selector: the labels that a new switch gets, matchLabels, do not satisfy matchExpressions: nothing is created")
	}
	return selector, nil
}

// newSwitch builds a Switch of the Machine.
func newSwitch(machine *v1alpha1.Machine, name string) *v1alpha1.Switch {
	stamped := map[string]string{}
	for key, value := range labelSelector(machine).MatchLabels {
		stamped[key] = value
	}
	return &v1alpha1.Switch{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Namespace:       machine.Namespace,
			Labels:          stamped,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(machine, machineKind)},
		},
		Spec: v1alpha1.SwitchSpec{Position: v1alpha1.PositionDown},
	}
}

// slotName returns the name of the Switch in that slot of the Machine. It looks like a generated name and is always the same: a controller
// with a stale cache cannot create the Switch twice. It must never change with a new version of the operator; a golden test pins it.
func slotName(machine types.UID, slot int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", machine, slot))
	for i := range nameLength {
		sum[i] &= 0x7f // SafeEncodeString works on characters: one byte each
	}
	return namePrefix + rand.SafeEncodeString(string(sum[:nameLength]))
}

// freeNames returns the names of the first count slots that are not taken.
func freeNames(machine types.UID, taken sets.Set[string], count int) []string {
	names := make([]string, 0, count)
	for slot := 0; len(names) < count; slot++ {
		if name := slotName(machine, slot); !taken.Has(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// patch is a JSON merge patch that only one version of one object accepts.
type patch struct {
	Metadata patchMetadata `json:"metadata"`
	Spec     any           `json:"spec,omitempty"`
}

type patchMetadata struct {
	UID             types.UID                `json:"uid"`
	ResourceVersion string                   `json:"resourceVersion"`
	OwnerReferences *[]metav1.OwnerReference `json:"ownerReferences,omitempty"`
}

// leverPatch moves the lever of this version of the Machine down.
func leverPatch(machine *v1alpha1.Machine) patch {
	return patch{
		Metadata: patchMetadata{UID: machine.UID, ResourceVersion: machine.ResourceVersion},
		Spec:     map[string]string{"switchPosition": v1alpha1.PositionDown},
	}
}

// flipPatch moves the Switch down in the version that was reserved.
func flipPatch(flip v1alpha1.Flip) patch {
	return patch{
		Metadata: patchMetadata{UID: flip.UID, ResourceVersion: flip.ResourceVersion},
		Spec:     map[string]string{"position": v1alpha1.PositionDown},
	}
}

// adoptPatch makes the Machine the controller of this version of the Switch, whose other owners stay.
func adoptPatch(machine *v1alpha1.Machine, sw *v1alpha1.Switch) patch {
	return ownersPatch(sw, append(otherOwners(machine, sw), *metav1.NewControllerRef(machine, machineKind)))
}

// releasePatch removes the Machine from the owners of this version of the Switch.
func releasePatch(machine *v1alpha1.Machine, sw *v1alpha1.Switch) patch {
	return ownersPatch(sw, otherOwners(machine, sw))
}

func ownersPatch(sw *v1alpha1.Switch, owners []metav1.OwnerReference) patch {
	return patch{Metadata: patchMetadata{UID: sw.UID, ResourceVersion: sw.ResourceVersion, OwnerReferences: &owners}}
}

func otherOwners(machine *v1alpha1.Machine, sw *v1alpha1.Switch) []metav1.OwnerReference {
	others := []metav1.OwnerReference{}
	for _, owner := range sw.OwnerReferences {
		if owner.UID != machine.UID {
			others = append(others, owner)
		}
	}
	return others
}

// maxListed is how many things a message lists.
const maxListed = 10

// listed returns the text for a message, cut where it would be too long.
func listed(things []string) string {
	if len(things) <= maxListed {
		return strings.Join(things, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(things[:maxListed], ", "), len(things)-maxListed)
}
