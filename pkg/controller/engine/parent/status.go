// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/rollout"
)

// statusOf returns the status that the hook desires of the parent, nil if that is to keep its status. For a CompositeController no status is an
// empty one, and it has the generation of the parent that the hook has seen. Other components write the status of a type of Kubernetes: the hook gives
// fields of it. A parent that is being deleted keeps its status unless we finalize it: the API server may refuse another one.
func (spec *Spec) statusOf(o observed) (map[string]any, error) {
	given, shared := o.answer.Status, o.of.isOfKubernetes()
	switch {
	case given == nil && (spec.kind == Decorator || shared):
		return nil, nil
	case o.parent.Deleting() && !hasFinalizer(o.parent, spec.finalizer):
		return nil, nil
	}
	status := map[string]any{}
	if given != nil {
		if err := utiljson.Unmarshal(given, &status); err != nil {
			return nil, fmt.Errorf("reading the status in the answer of the hook: %w", err)
		}
	}
	if spec.kind == Composite && !shared {
		status["observedGeneration"] = o.parent.GetGeneration()
	}
	return status, nil
}

// planStatus writes the status unless the parent has it, or the API server is known to ignore it. The status of a parent that cannot be
// parsed is written, unless it is shared with other components.
func (p *plan) planStatus(o observed, status map[string]any) {
	if status == nil {
		return
	}
	known := &p.history.status
	tree, err := treeOf(o.parent)
	known.pending = 0
	shared := o.of.isOfKubernetes()
	if shared {
		present, _ := tree["status"].(map[string]any)
		known.pending, status = merge.HashTree(status), merged(present, status)
		if err != nil || len(status)+len(present) == 0 {
			return
		}
	}
	wanted := withoutNulls(status)
	if err == nil && equality.Semantic.DeepEqual(withoutNulls(tree["status"]), wanted) {
		return
	}
	switch (version{merge.HashTree(wanted), o.parent.GetResourceVersion()}) {
	case o.history.parent:
		return
	case o.history.refused.version:
		if o.statusBy == "" {
			p.problems = append(p.problems, tooLarge(o.history.refused.text))
		}
		return
	}
	p.status = status
	if o.statusBy != "" && !shared {
		p.problem = p.leaveStatus(o.parent, o.statusBy)
		return
	}
	if known.pending != 0 {
		known.repairs = known.written == known.pending
	} else {
		known.repairs = known.written != 0 && err == nil && known.written != merge.HashTree(withoutNulls(tree["status"]))
	}
	if !p.isDue(known, o) {
		p.status = nil
	}
	p.statusStuck = known.isNews(o.now)
}

// recordStatusTooLarge records a status that was refused for its size, of a parent in this version.
func (h *history) recordStatusTooLarge(status map[string]any, resourceVersion, text string) {
	h.refused = refusal{version{merge.HashTree(withoutNulls(status)), resourceVersion}, text}
}

// recordStatusDone records a status that was written to a parent of the version before.
func (h *history) recordStatusDone(status map[string]any, before string, written object) {
	ignored := before == written.GetResourceVersion()
	if ignored {
		h.ignored, h.parent = true, version{merge.HashTree(withoutNulls(status)), before}
	}
	if h.status.pending != 0 {
		h.answers.written = written.GetResourceVersion()
		if !ignored { // else no other client undoes it
			h.status.written = h.status.pending
		}
	} else if tree, err := treeOf(written); err == nil {
		h.status.written = merge.HashTree(withoutNulls(tree["status"]))
	}
	h.status.recordDone(h.now)
}

// resyncAfter returns when the hook wants to be called again, with a minimum; 0 if it does not.
func resyncAfter(answer *answer) time.Duration {
	if answer.ResyncAfter == 0 {
		return 0
	}
	return max(answer.ResyncAfter, minResyncAfter)
}

// setUpdated sets the condition Updated of a rolling update in a status.
func setUpdated(status map[string]any, state *rollout.State, o observed) error {
	var parent struct {
		Status map[string]any `json:"status"`
	}
	_ = o.parent.Decode(&parent) // a status that cannot be read is replaced
	if err := state.SetCondition(status, parent.Status, o.now); err != nil {
		return &rejectedError{hook.ReasonInvalidResponse, fmt.Errorf("the answer of the hook: %w", err)}
	}
	return nil
}

// merged returns a status with the fields that a hook gives: like a JSON merge patch (RFC 7386), which removes those that are null.
func merged(present, given map[string]any) map[string]any {
	result := maps.Clone(present)
	if result == nil {
		result = map[string]any{}
	}
	for field, value := range given {
		inner, isObject := value.(map[string]any)
		switch before, _ := result[field].(map[string]any); {
		case value == nil:
			delete(result, field)
		case isObject:
			result[field] = merged(before, inner)
		default:
			result[field] = value
		}
	}
	return result
}

// withoutNulls returns a tree as an API server stores it: members that are null are absent, and whole numbers are integers.
func withoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for key, member := range v {
			if member != nil {
				kept[key] = withoutNulls(member)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, element := range v {
			kept[i] = withoutNulls(element)
		}
		return kept
	case float64:
		if whole := int64(v); float64(whole) == v && whole < 1<<53 && whole > -1<<53 {
			return whole
		}
	}
	return value
}
