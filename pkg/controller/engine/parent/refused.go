// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// adoptionRefused returns the problem of a parent that does not adopt orphans, because its selector demands no value of a label.
func adoptionRefused(parent object, selector labels.Selector, of Resource, orphans []object) *Problem {
	return &Problem{v1alpha1.ReasonAdoptionRefused, fmt.Sprintf(
		"the spec.selector of the parent %s, %q, demands no value of a label, and matches %d %s without a controller owner, such as %s: they are not adopted, because those that the hook "+
			"does not desire would be deleted; give the selector matchLabels, or set adoption: any in the CompositeController",
		nameIn(parent), selector, len(orphans), of.Resource, nameIn(orphans[0]))}
}
