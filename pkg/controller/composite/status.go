// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
)

// statusOf is the status that the hook wants the parent to have. No status is an empty one.
func statusOf(parent object, wanted []byte) (map[string]any, error) {
	status := map[string]any{}
	if wanted != nil {
		if err := utiljson.Unmarshal(wanted, &status); err != nil {
			return nil, fmt.Errorf("reading the status in the answer of the hook: %w", err)
		}
	}
	status["observedGeneration"] = parent.GetGeneration()
	return status, nil
}

// planStatus writes the status unless the parent has it, or the API server is known to take nothing of it. Where the parent
// cannot be read the status is written.
func (p *plan) planStatus(o observation, status map[string]any) {
	wanted := withoutNulls(status)
	tree, err := treeOf(o.parent)
	if err == nil && equality.Semantic.DeepEqual(withoutNulls(tree["status"]), wanted) {
		return
	}
	switch (version{hashOf(wanted), o.parent.GetResourceVersion()}) {
	case o.memory.parent:
		return
	case o.memory.refused.version:
		if o.statusBy == "" {
			p.problems = append(p.problems, &tooLargeError{o.memory.refused.text})
		}
		return
	}
	p.status = status
	if o.statusBy != "" {
		p.problem = p.leaveStatus(o.parent, o.statusBy)
		return
	}
	known := &p.memory.status
	known.repairs = known.written != 0 && err == nil && known.written != hashOf(withoutNulls(tree["status"]))
	if !known.repairs {
		return
	}
	if wait := known.rewrites.Wait(o.now); wait > 0 {
		p.status, p.held = nil, true
		p.requeue(wait)
	}
	slowed := known.rewrites.Slowed(o.now)
	p.statusStuck = slowed && !known.told
	known.told = slowed
}

// statusMemory is what one process has learned of the status of a parent.
type statusMemory struct {
	// written is a hash of the status as our last write left it, 0 if there was none.
	written uint64
	// repairs tells that another client has changed it since.
	repairs bool
	// rewrites are the writes that have put it right.
	rewrites controller.RewriteBackoff
	told     bool
}

// statusTooLarge learns from a status that was refused for its size, of a parent in this version.
func (m *memory) statusTooLarge(status map[string]any, resourceVersion, text string) {
	m.refused = refusal{version{hashOf(withoutNulls(status)), resourceVersion}, text}
}

// statusDone learns from a status that was written. The resourceVersion is that of the parent which the write returned.
func (m *memory) statusDone(status map[string]any, before string, written object) {
	if before == written.GetResourceVersion() {
		m.parent = version{hashOf(withoutNulls(status)), before}
	}
	if tree, err := treeOf(written); err == nil {
		m.status.written = hashOf(withoutNulls(tree["status"]))
	}
	if m.status.repairs {
		m.status.rewrites = m.status.rewrites.Add(m.now)
	}
}

// resyncAfter is when the hook wants to be called again, within reason; 0 if it does not.
func resyncAfter(answer *hook.CompositeResponse) time.Duration {
	if answer.ResyncAfter == 0 {
		return 0
	}
	return max(answer.ResyncAfter, minResyncAfter)
}

// withoutNulls is a tree as an API server keeps it: a member that is null is not there, and whole numbers are integers.
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

// health is how a CompositeController does.
type health struct {
	// wrong is why parents are not served, nil if they are.
	wrong *problem
	// synced tells that parents and children are all observed.
	synced bool
	// overlap is why no parent is served although they are all observed, nil if some are.
	overlap *problem
	// hook is why the last call of a hook failed, nil if it did not.
	hook *problem
	// uncleared is why parents of a type before still have our finalizer, nil if none has.
	uncleared *problem
}

// reasonUnselected is beside the reasons of package hook.
const reasonUnselected = "HookChildNotSelected"

// hookProblem is what a hook has to do with the failure of a sync: nil if nothing.
func hookProblem(err error) *problem {
	if _, ok := errors.AsType[*unselected](err); ok {
		return &problem{reasonUnselected, err.Error()}
	}
	if reason := hook.ReasonOf(err); reason != "" {
		return &problem{string(reason), controller.WithoutPorts(hook.Message(err))}
	}
	return nil
}

// forbidden is that the engine lacks rights on a resource, in the words of a role.
func forbidden(of resource, verbs ...string) *problem {
	return &problem{v1alpha1.ReasonForbidden, fmt.Sprintf(
		"the engine may not %s %s: add a ClusterRole with the label millwright.dev/aggregate-to-engine=true and the rule apiGroups: [%q], resources: [%q], verbs: [%s]",
		strings.Join(verbs, ", "), of.GroupResource(), of.Group, of.Resource, strings.Join(verbs, ", "))}
}

// controllerStatus is that of the CompositeController.
func controllerStatus(cc *v1alpha1.CompositeController, h health, now time.Time) v1alpha1.CompositeControllerStatus {
	status := *cc.Status.DeepCopy()
	status.ObservedGeneration = cc.Generation
	status.Children = childrenColumn(cc.Spec.ChildResources)
	ready, why := metav1.ConditionFalse, h.wrong
	switch {
	case h.wrong != nil:
	case !h.synced:
		why = &problem{v1alpha1.ReasonStarting, "the caches of parents and children are being filled"}
	case h.uncleared != nil:
		why = h.uncleared
	case h.overlap != nil:
		why = h.overlap
	case h.hook != nil:
		why = h.hook
	default:
		ready, why = metav1.ConditionTrue, &problem{v1alpha1.ReasonServing, "parents are served"}
	}
	controller.SetCondition(&status.Conditions, now, cc.Generation, v1alpha1.ConditionReady, ready, why.reason, why.message)
	return status
}

func childrenColumn(children []v1alpha1.CompositeControllerChildResourceRule) string {
	var names []string
	for _, child := range children {
		names = append(names, child.Resource)
	}
	return controller.Truncate(strings.Join(names, ","), maxMessage)
}
