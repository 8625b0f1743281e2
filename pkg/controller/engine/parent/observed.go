// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/hook"
)

// observed is what a plan is decided from. Nothing of it is changed.
type observed struct {
	// parent as the hook has seen it, except for our finalizer, and its type.
	parent   object
	of       *parentType
	selector labels.Selector
	// children that the parent owns, adopted ones included.
	children map[childKey]object
	// related is a hash of the versions of the related objects.
	related uint64
	// called is the hook that was called, answer its answer, and sum a hash of that.
	called phase
	answer *answer
	sum    uint64
	// rolling are the revisions of a parent whose children roll, the latest first, and strays the records that are none of a revision; nil if no
	// children roll. The answer is the one for the latest revision.
	rolling []revisionAnswer
	strays  []object
	history history
	// statusBy is the older CompositeController that writes the status of the parent, "" if none does.
	statusBy string
	now      time.Time
}

// answer is the answer of a hook of either kind.
type answer struct {
	hook.CompositeResponse
	// desired are its children.
	desired *desiredChildren
	// Labels and Annotations are changes of a target.
	Labels, Annotations []hook.Change
}

// decode decodes and validates an answer for the parent. Nothing of it is used after an error, which is a *hook.Error.
func (spec *Spec) decode(body []byte, rules hook.Rules, parent object) (*answer, error) {
	rules = spec.decodingRules(rules, parent)
	if spec.kind == Composite {
		response, err := hook.DecodeComposite(body, rules)
		if err != nil {
			return nil, err
		}
		decoded := &answer{CompositeResponse: *response}
		if !response.Recalled {
			decoded.desired = spec.desiredChildren(response.Children)
		}
		return decoded, nil
	}
	response, err := hook.DecodeDecorator(body, rules)
	if err != nil {
		return nil, err
	}
	return &answer{
		CompositeResponse: hook.CompositeResponse{
			Status: response.Status, Children: response.Attachments, ResyncAfter: response.ResyncAfter, Finalized: response.Finalized,
			Warnings: response.Warnings,
		},
		desired:     spec.desiredChildren(response.Attachments),
		Labels:      response.Labels,
		Annotations: response.Annotations,
	}, nil
}
