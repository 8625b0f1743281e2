// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
)

// metadataChange is what the labels and annotations of a target lack: by key, the value, or nil for one that is to be removed.
type metadataChange struct{ labels, annotations map[string]any }

// planMetadata changes the labels and annotations of a target, unless they are as desired.
func (p *plan) planMetadata(o observed) error {
	if len(o.answer.Labels) == 0 && len(o.answer.Annotations) == 0 {
		p.history.metadata = rewriteHistory{}
		return nil
	}
	metadata, err := metadataOf(o.parent)
	if err != nil {
		return fmt.Errorf("reading the metadata of the target: %w", err)
	}
	change := metadataChange{changesOf(metadata.Labels, o.answer.Labels), changesOf(metadata.Annotations, o.answer.Annotations)}
	if change.labels == nil && change.annotations == nil {
		return nil
	}
	// Another client has changed back what was written before: the labels and annotations are the same as then.
	known := &p.history.metadata
	desired := hashOfChanges(o.answer)
	known.repairs = known.written == desired
	known.pending = desired
	if p.isDue(known, o) {
		p.metadata = &change
	}
	p.metadataStuck = known.isNews(o.now)
	return nil
}

// changesOf returns which of the desired changes are still to be made, nil for none.
func changesOf(current map[string]string, desired []hook.Change) map[string]any {
	var changes map[string]any
	for _, change := range desired {
		value, found := current[change.Key]
		if change.Remove && !found || !change.Remove && found && value == change.Value {
			continue
		}
		if changes == nil {
			changes = map[string]any{}
		}
		changes[change.Key] = nil
		if !change.Remove {
			changes[change.Key] = change.Value
		}
	}
	return changes
}

func hashOfChanges(answer *answer) uint64 {
	tree := map[string]any{"labels": changesOf(nil, answer.Labels), "annotations": changesOf(nil, answer.Annotations)}
	for member, removed := range map[string][]hook.Change{"labels": answer.Labels, "annotations": answer.Annotations} {
		for _, change := range removed {
			if change.Remove {
				tree[member+"-"+change.Key] = nil
			}
		}
	}
	return merge.HashTree(tree)
}

// patchOf returns a JSON merge patch (RFC 7386) of a target, with its observed version as a precondition. A change of nil leaves the metadata as it
// is, and a status of nil the status.
func patchOf(target object, change *metadataChange, status map[string]any) ([]byte, error) {
	metadata := map[string]any{"resourceVersion": target.GetResourceVersion()}
	if change != nil && change.labels != nil {
		metadata["labels"] = change.labels
	}
	if change != nil && change.annotations != nil {
		metadata["annotations"] = change.annotations
	}
	patch := map[string]any{"metadata": metadata}
	if status != nil {
		tree, err := treeOf(target)
		if err != nil {
			return nil, err
		}
		observed, _ := tree["status"].(map[string]any)
		patch["status"] = mergePatch(observed, withoutNulls(status).(map[string]any))
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding what the hook desires of the target: %w", err)
	}
	return body, nil
}

// mergePatch returns the JSON merge patch that makes the wanted object of the observed one. The library for it, gopkg.in/evanphx/json-patch.v4, reads
// numbers as float64.
func mergePatch(observed, wanted map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range observed {
		if _, kept := wanted[key]; !kept {
			patch[key] = nil
		}
	}
	for key, value := range wanted {
		before, found := observed[key]
		was, wasObject := before.(map[string]any)
		is, isObject := value.(map[string]any)
		switch {
		case wasObject && isObject:
			if inner := mergePatch(was, is); len(inner) > 0 {
				patch[key] = inner
			}
		case !found || merge.HashTree(before) != merge.HashTree(value):
			patch[key] = value
		}
	}
	return patch
}

// recordMetadataDone records that the labels and annotations were written.
func (h *history) recordMetadataDone() {
	h.metadata.written = h.metadata.pending
	h.metadata.recordDone(h.now)
}

// metadataWarning is the event of labels or annotations that do not last.
func metadataWarning() controller.RecordEvent {
	return controller.RecordEvent{Type: corev1.EventTypeWarning, Reason: eventMetadataStuck,
		Message: "The labels or annotations do not last: another client changes them after each write. They are written ever more rarely"}
}
