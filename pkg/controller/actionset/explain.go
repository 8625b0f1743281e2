// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
)

// ofSubject finds the fields in an expression of a template that exist only for subjects of one kind, and the Profile.
var ofSubject = regexp.MustCompile(`\.(StatefulSet|DeploymentConfig|Deployment|PVC|Namespace|Profile)\b`)

// ofPhase finds the phase whose objects an expression uses, "" for the deferred one, and where it looks for them.
var ofPhase = regexp.MustCompile(`\.(?:Phases\.([^.\s]+)|DeferPhase)\.(Secrets|ConfigMaps)\.`)

// unknownName finds what a map of the templates does not have.
var unknownName = regexp.MustCompile(`^"(.*)" not found$`)

// explainRendering explains the rendering error of a template that uses what the action does not have.
func explainRendering(err error, action *snapshotAction) error {
	var failed *blueprint.RenderError
	if !errors.As(err, &failed) {
		return err
	}
	reason := ""
	if strings.Contains(failed.Reason, "nil pointer evaluating") {
		reason = whyNoSubject(failed.Expression, action)
	} else if found := unknownName.FindStringSubmatch(failed.Reason); found != nil {
		reason = whyNotRead(found[1], failed.Expression, action)
	}
	if reason == "" {
		return err
	}
	explained := *failed
	explained.Reason = reason
	return &explained
}

// whyNoSubject returns why there is no subject of the kind that an expression uses, or no Profile: the template engine reports a nil pointer for both. It
// returns "" for another expression.
func whyNoSubject(expression string, action *snapshotAction) string {
	found := ofSubject.FindStringSubmatch(expression)
	if found == nil {
		return ""
	}
	asked, object := found[1], action.Spec.Object
	if asked == "Profile" {
		return "the action names no profile, and the template uses .Profile"
	}
	return fmt.Sprintf("the subject of the action is the %s %q: the template uses .%s, which exists only for subjects of kind %s; .Object exists for all subjects",
		object.Kind, object.Name, asked, asked)
}

// whyNotRead returns why an object of a phase is not where an expression looks for it: it is not read if it has another kind, or none. It returns "" if
// the expression is about no such object.
func whyNotRead(name, expression string, action *snapshotAction) string {
	found := ofPhase.FindStringSubmatch(expression)
	if found == nil {
		return ""
	}
	phase, wanted := found[1], found[2]
	used := action.Blueprint.DeferPhase
	if phase != "" {
		at := slices.IndexFunc(action.Blueprint.Phases, func(p v1alpha1.BlueprintPhase) bool { return p.Name == phase })
		if at < 0 {
			return ""
		}
		used = &action.Blueprint.Phases[at]
	}
	if used == nil {
		return ""
	}
	reference, has := used.Objects[name]
	if !has {
		return ""
	}
	what := fmt.Sprintf("%q not found: objects.%s of phase %s", name, name, used.Name)
	switch kind := strings.ToLower(reference.Kind); {
	case kind != "secret" && kind != "configmap":
		return fmt.Sprintf("%s has the kind %q, and only Secrets and ConfigMaps are read: set its kind to Secret or ConfigMap", what, reference.Kind)
	case kind == "configmap" && wanted == "Secrets":
		return what + " is a ConfigMap: use .ConfigMaps"
	case kind == "secret" && wanted == "ConfigMaps":
		return what + " is a Secret: use .Secrets"
	}
	return ""
}
