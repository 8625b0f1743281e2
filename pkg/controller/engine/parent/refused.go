// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// adoptionRefused returns the problem of a parent that does not adopt orphans of a type; nil if it adopts all.
func adoptionRefused(parent object, selector labels.Selector, of Resource, claimed claims) *Problem {
	refusal := func(orphans []object, format string) *Problem {
		return &Problem{v1alpha1.ReasonAdoptionRefused, fmt.Sprintf(format, nameIn(parent), selector, of.GroupResource(), nameIn(orphans[0]))}
	}
	switch {
	case len(claimed.refused) > 0:
		return refusal(claimed.refused, "the spec.selector of the parent %s, %q, demands no value of a label, and matches %s without a controller owner, such as %s: they are not "+
			"adopted, because those that the hook does not desire would be deleted; give the selector matchLabels, or set adoption: any in the CompositeController")
	case len(claimed.peers) > 0:
		return refusal(claimed.peers, "the spec.selector of the parent %s, %q, matches %s that are parents themselves, such as %s: they are not adopted, because two parents could "+
			"adopt and delete each other; give the parents other labels than their children, or the CompositeController a parentResource.labelSelector")
	}
	return nil
}
