// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"millwright.dev/pkg/blueprint"
)

// ofSubject finds in an expression of a template what is there only for subjects of one kind, and the Profile.
var ofSubject = regexp.MustCompile(`\.(StatefulSet|DeploymentConfig|Deployment|PVC|Namespace|Profile)\b`)

// explainSubject makes the text of a rendering error explain that a template asks for what the action does not have: a subject of another kind, or a
// Profile. The engine reports a nil pointer for both.
func explainSubject(err error, action *snapshotAction) error {
	var failed *blueprint.RenderError
	if !errors.As(err, &failed) || !strings.Contains(failed.Reason, "nil pointer evaluating") {
		return err
	}
	found := ofSubject.FindStringSubmatch(failed.Expression)
	if found == nil {
		return err
	}
	explained := *failed
	if asked := found[1]; asked == "Profile" {
		explained.Reason = "the action names no profile, and the template asks for .Profile"
	} else {
		object := action.Spec.Object
		explained.Reason = fmt.Sprintf("the subject of the action is the %s %q: the template asks for .%s, which is there for subjects of kind %s alone; .Object is there for all",
			object.Kind, object.Name, asked, asked)
	}
	return &explained
}
