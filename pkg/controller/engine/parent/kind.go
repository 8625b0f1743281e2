// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"strings"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// finalizer returns the finalizer that the parents of a Declaration get.
func (k Kind) finalizer(name string) string {
	return "metacontroller.io/" + strings.ToLower(string(k)) + "-" + name
}

// parent returns what a parent is called in the API of the kind.
func (k Kind) parent() string {
	if k == Decorator {
		return "target"
	}
	return "parent"
}

// Parents returns what parents are called in the API of the kind.
func (k Kind) Parents() string { return k.parent() + "s" }

// Children returns what the children of a parent are called in the API of the kind.
func (k Kind) Children() string {
	if k == Decorator {
		return "attachments"
	}
	return "children"
}

// parentField returns the field of the spec with the types of parents.
func (k Kind) parentField() string {
	if k == Decorator {
		return "spec.resources"
	}
	return "spec.parentResource"
}

func (k Kind) parentNotServed() string {
	if k == Decorator {
		return v1alpha1.ReasonTargetNotServed
	}
	return v1alpha1.ReasonParentNotServed
}

func (k Kind) childNotServed() string {
	if k == Decorator {
		return v1alpha1.ReasonAttachmentNotServed
	}
	return v1alpha1.ReasonChildNotServed
}
