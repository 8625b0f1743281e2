// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

const (
	// Finalizer keeps a deleted ActionSet until what it leaves behind is removed.
	Finalizer = "millwright.dev/actionset"

	// snapshotSecretType is the type of the Secret with a snapshot, and snapshotKey its only key.
	snapshotSecretType = corev1.SecretType("millwright.dev/actionset-run")
	snapshotKey        = "run.json"
)

var kind = schema.GroupVersion(v1alpha1.GroupVersion).WithKind("ActionSet")

// snapshot is what a run is made from, as of its start. It is the same for every process that continues the run. Secrets, ConfigMaps and
// Profiles are not in it; they are read again each time.
type snapshot struct {
	Actions []snapshotAction `json:"actions"`
}

// snapshotAction is one action of a run.
type snapshotAction struct {
	Spec      v1alpha1.ActionSpec      `json:"spec"`
	Blueprint v1alpha1.BlueprintAction `json:"blueprint"`
	// Time is .Time in templates.
	Time    string  `json:"time"`
	Subject subject `json:"subject"`
}

// subject is the data of the subject of an action for templates.
type subject struct {
	StatefulSet *blueprint.Workload  `json:"statefulSet,omitempty"`
	Deployment  *blueprint.Workload  `json:"deployment,omitempty"`
	PVC         *blueprint.Reference `json:"pvc,omitempty"`
	Namespace   *blueprint.Reference `json:"namespace,omitempty"`
	Object      map[string]any       `json:"object,omitempty"`
}

// phaseOf returns a phase of the Blueprint; nil if there is none.
func (r *snapshot) phaseOf(key phaseKey) *v1alpha1.BlueprintPhase {
	if r == nil || key.action >= len(r.Actions) {
		return nil
	}
	action := &r.Actions[key.action].Blueprint
	switch {
	case key.phase == phase.Deferred:
		return action.DeferPhase
	case key.phase < len(action.Phases):
		return &action.Phases[key.phase]
	default:
		return nil
	}
}

// traits returns the traits of the function of a phase.
func (r *snapshot) traits(key phaseKey) phase.Traits {
	if called := r.phaseOf(key); called != nil {
		return phase.TraitsOf(called.Func)
	}
	return phase.Traits{}
}

// needsFinalizer reports whether something has to be done if the ActionSet is deleted while it runs.
func (r *snapshot) needsFinalizer() bool {
	for i := range r.Actions {
		action := &r.Actions[i].Blueprint
		if action.DeferPhase != nil {
			return true
		}
		for p := range action.Phases {
			if phase.TraitsOf(action.Phases[p].Func).LeavesBehind {
				return true
			}
		}
	}
	return false
}

// snapshotName returns the name of the Secret with the snapshot. An ActionSet has exactly one.
func snapshotName(set *v1alpha1.ActionSet) string { return snapshotNameOf(set.UID) }

// snapshotNameOf is snapshotName for the ActionSet with this UID.
func snapshotNameOf(uid types.UID) string { return phase.SnapshotPrefix + string(uid) }

// snapshotIDOf returns the identity of the Secret with a snapshot. Its UID is empty before the Secret is created.
func snapshotIDOf(secret *corev1.Secret) *v1alpha1.RunSnapshot {
	return &v1alpha1.RunSnapshot{UID: secret.UID, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(secret.Data[snapshotKey]))}
}

// newSnapshotSecret builds the Secret with the snapshot. It returns an error if the snapshot is too large for a Secret. The garbage collector deletes what an
// ActionSet owns as soon as that is deleted in the foreground. So the ActionSet owns the Secret only if it has no finalizer, and nothing is left to run then.
func newSnapshotSecret(set *v1alpha1.ActionSet, r *snapshot) (*corev1.Secret, error) {
	content, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the snapshot: %w", err)
	}
	if len(content) > corev1.MaxSecretSize {
		return nil, errors.New(snapshotTooLarge(len(content)))
	}
	var owners []metav1.OwnerReference
	if !r.needsFinalizer() {
		owners = []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)}
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:            snapshotName(set),
			Namespace:       set.Namespace,
			Labels:          map[string]string{controller.LabelManagedBy: controller.ManagedBy, phase.LabelActionSet: string(set.UID)},
			OwnerReferences: owners,
		},
		Immutable: ptr.To(true),
		Type:      snapshotSecretType,
		Data:      map[string][]byte{snapshotKey: content},
	}, nil
}

// snapshotTooLarge returns why a run is refused whose snapshot has that size or more, in bytes.
func snapshotTooLarge(size int) string {
	return fmt.Sprintf("the snapshot of the run is too large: the actions, their Blueprints and subjects have at least %d bytes in all, and a Secret holds %d: "+
		"run fewer actions at a time, or make the Blueprint or the subject smaller", size, corev1.MaxSecretSize)
}

// isSnapshotOf reports whether a Secret is marked as the snapshot of the ActionSet. A user who may edit Secrets can mark one, too.
func isSnapshotOf(set *v1alpha1.ActionSet, secret *corev1.Secret) bool {
	made := secret.Labels[phase.LabelActionSet] == string(set.UID)
	if owner := metav1.GetControllerOf(secret); owner != nil {
		made = owner.UID == set.UID
	}
	return made && secret.Type == snapshotSecretType && secret.Immutable != nil && *secret.Immutable
}

// readSnapshot reads a snapshot. It returns an error if the Secret is not the one from which the ActionSet was started: the status identifies
// that one by its UID and the digest of its content. If the release that started the run did not record them, the Secret is accepted that exists
// when this release first observes the run.
func readSnapshot(set *v1alpha1.ActionSet, secret *corev1.Secret) (*snapshot, error) {
	if !isSnapshotOf(set, secret) {
		return nil, fmt.Errorf("the Secret %s is not the snapshot of this ActionSet: its owner, its label or its type is another one, or it can be changed", secret.Name)
	}
	if set.Status != nil && set.Status.Snapshot != nil {
		switch started, found := set.Status.Snapshot, snapshotIDOf(secret); {
		case started.UID != found.UID:
			return nil, fmt.Errorf("the Secret %s was replaced: the run was started from the Secret with the UID %s, and this one has the UID %s",
				secret.Name, started.UID, found.UID)
		case started.Digest != found.Digest:
			return nil, fmt.Errorf("the Secret %s was changed: the run was started from content with the digest %s, and this content has the digest %s",
				secret.Name, started.Digest, found.Digest)
		}
	}
	var r snapshot
	if err := json.Unmarshal(secret.Data[snapshotKey], &r); err != nil {
		return nil, fmt.Errorf("reading the snapshot in Secret %s: its key %s is damaged", secret.Name, snapshotKey)
	}
	return &r, nil
}

// clockSkew is the maximum difference between the clocks of two processes.
const clockSkew = time.Minute

// equalSnapshot returns the snapshot in the Secret if it is r except for the times at which its actions began: they may be from an earlier attempt
// to start the same ActionSet. Otherwise it returns nil.
func equalSnapshot(set *v1alpha1.ActionSet, r *snapshot, secret *corev1.Secret, now time.Time) *snapshot {
	var found snapshot
	if err := json.Unmarshal(secret.Data[snapshotKey], &found); err != nil || len(found.Actions) != len(r.Actions) {
		return nil
	}
	equal := &snapshot{Actions: slices.Clone(r.Actions)}
	for i := range equal.Actions {
		at, err := time.Parse(time.RFC3339Nano, found.Actions[i].Time)
		if err != nil || at.Before(set.CreationTimestamp.Add(-clockSkew)) || at.After(now.Add(clockSkew)) {
			return nil
		}
		equal.Actions[i].Time = at.UTC().Format(time.RFC3339Nano)
	}
	content, err := json.Marshal(equal)
	if err != nil || !bytes.Equal(content, secret.Data[snapshotKey]) {
		return nil
	}
	return equal
}

// rawOf encodes an object for a status, nil for nil.
func rawOf(object map[string]any) (*runtime.RawExtension, error) {
	if object == nil {
		return nil, nil
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &runtime.RawExtension{Raw: raw}, nil
}
