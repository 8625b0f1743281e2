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

// ofSubject finds the fields in an expression of a template that exist only for subjects of one kind, and the Profile.
var ofSubject = regexp.MustCompile(`\.(StatefulSet|DeploymentConfig|Deployment|PVC|Namespace|Profile)\b`)

// explainSubject explains the rendering error of a template that uses what the action does not have: a subject of another kind, or a Profile.
// The template engine reports a nil pointer for both.
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
		explained.Reason = "the action names no profile, and the template uses .Profile"
	} else {
		object := action.Spec.Object
		explained.Reason = fmt.Sprintf("the subject of the action is the %s %q: the template uses .%s, which exists only for subjects of kind %s; .Object exists for all subjects",
			object.Kind, object.Name, asked, asked)
	}
	return &explained
}
