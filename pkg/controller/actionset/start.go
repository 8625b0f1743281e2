// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// knownKinds are the kinds of subjects that need no resource, in lower case.
var knownKinds = []string{"statefulset", "deployment", "pvc", "namespace", "unstructured"}

// kindDeploymentConfig is a kind of subjects that Kanister supports.
const kindDeploymentConfig = "deploymentconfig"

// rejection is why nothing of an ActionSet is run.
type rejection struct {
	message string
	events  []recordEvent
	// actions are for the status, with the faulty phase marked as failed.
	actions []v1alpha1.ActionStatus
}

// decideStart checks everything before anything is done, creates the snapshot, and starts the first phases.
func decideStart(o observed) plan {
	if o.statusTooLarge != "" {
		return decideTooLarge(o)
	}
	if o.set.Spec != nil && o.set.Spec.Cancel {
		return reject(o, v1alpha1.ReasonCancelRequested, rejection{message: cancelMessage(v1alpha1.ReasonCancelRequested)})
	}
	r, snapshot := o.snapshot, o.snapshotID
	if r == nil {
		refused := checkSet(o)
		if refused == nil && o.blueprintsProblem != "" {
			return waitToStart(o, phase.Waiting{For: "Blueprints cannot be read at the moment", Details: o.blueprintsProblem})
		}
		if refused == nil {
			r, refused = checkActions(o)
		}
		if refused != nil {
			return reject(o, v1alpha1.ReasonInvalid, *refused)
		}
		if o.subjects == nil && len(r.Actions) > 0 {
			return planAsking(lookUpSubjects{room: corev1.MaxSecretSize - sizeOf(r)})
		}
		for i, found := range o.subjects {
			if found.failure != "" {
				return reject(o, v1alpha1.ReasonInvalid, launchFailure(o, r, phaseKey{i, 0}, found.failure))
			}
			if found.retry {
				return waitToStart(o, actionsUnprepared(found.waiting))
			}
			r.Actions[i].Subject = found.subject
			r.Actions[i].resolveObjects(found.objects)
			if key, message := checkNamespaces(i, &r.Actions[i]); message != "" {
				return reject(o, v1alpha1.ReasonInvalid, launchFailure(o, r, key, message))
			}
		}
		if err := checkPhaseNumbers(r, o.set.Namespace); err != nil {
			return reject(o, v1alpha1.ReasonInvalid, *invalid(err.Error()))
		}
		secret, err := newSnapshotSecret(o.set, r)
		if err != nil {
			return reject(o, v1alpha1.ReasonInvalid, launchFailure(o, r, phaseKey{}, err.Error()))
		}
		snapshot = snapshotIDOf(secret)
		if o.snapshotRefusal != "" {
			return waitToStart(o, phase.Waiting{For: "The snapshot of the run cannot be created at the moment", Details: o.snapshotRefusal})
		}
	}
	t := newPlanner(o, r, initialStatus(o, r, snapshot))
	if message := t.sizeExceeded("the phases and output artifacts of the Blueprints have", 0); message != "" {
		return reject(o, v1alpha1.ReasonInvalid, *invalid(message))
	}
	if o.snapshot == nil && len(r.Actions) > 0 {
		// The Secret is created before any arguments are rendered: a process that finds it knows that another process was about to render.
		steps := finalizerSteps(o, r.needsFinalizer())
		if len(steps) == 0 && r.needsFinalizer() {
			steps = []controller.Step{keepFinalizer{}} // another process may have ended the run already, and would not delete what is created now
		}
		p := planOf(append(steps, createSnapshot{r})...)
		p.Again = true
		return p
	}
	for i := range t.status.Actions {
		action := &r.Actions[i]
		t.recordNormal("Started Action", "Executing action "+action.Spec.Name)
		t.events = append(t.events, missingInputs(action)...)
		if !t.advanceAction(i, true) {
			return waitToStart(o, actionsUnprepared(o.artifacts[i].waiting)) // an action without phases: nothing would record its end
		}
	}
	return t.plan()
}

// actionsUnprepared returns what a run waits for if an object that its actions name cannot be read, or if rendering was stopped.
func actionsUnprepared(what phase.Waiting) phase.Waiting {
	return phase.Waiting{For: "The actions cannot be prepared at the moment", Details: cmp.Or(what.Details, what.For)}
}

// waitToStart records that the run cannot start yet, and why.
func waitToStart(o observed, what phase.Waiting) plan {
	status := waitingStatus(o, what)
	p := plan{retry: true}
	if o.set.Status == nil || !equality.Semantic.DeepEqual(*o.set.Status, status) {
		p.Steps = []controller.Step{writeStatus{status}}
	}
	return p
}

// reject ends an ActionSet before anything of it was run.
func reject(o observed, reason string, r rejection) plan {
	return planOf(append([]controller.Step{writeStatus{rejectedStatus(o, reason, r)}}, eventSteps(r.events)...)...)
}

// needsBlueprints reports whether the start of a run depends on its Blueprints.
func needsBlueprints(o observed) bool {
	return o.snapshot == nil && !isCancelled(o.set) && checkSet(o) == nil
}

// checkSet checks the ActionSet without what it refers to.
func checkSet(o observed) *rejection {
	if o.snapshotDamage != "" {
		return invalid(o.snapshotDamage)
	}
	if o.set.Spec == nil {
		return invalid("Spec must be non-nil: Validation Failed")
	}
	for _, action := range o.set.Spec.Actions {
		object := action.Object
		switch kind := strings.ToLower(object.Kind); {
		case kind == kindDeploymentConfig:
			return invalid(fmt.Sprintf("Action %s: subjects of kind DeploymentConfig are not supported yet: Validation Failed", action.Name))
		case !slices.Contains(knownKinds, kind) && (object.APIVersion == "" || object.Resource == ""):
			return invalid(fmt.Sprintf("Not a known object Kind %s. Action %s must specify Resource name and API version: Validation Failed",
				object.Kind, action.Name))
		}
	}
	if err := cmp.Or(checkNumbers(o.set.Spec, o.set.Namespace), checkReferences(o.set.Spec)); err != nil {
		return invalid(err.Error() + ": Validation Failed")
	}
	return nil
}

func invalid(message string) *rejection {
	return &rejection{message: message, events: []recordEvent{warning("Error", message)}}
}

// checkActions looks up the Blueprint of each action and checks it. It returns a snapshot without the subjects. Many actions may name one large
// Blueprint, so that the size of the snapshot is checked before its parts are copied.
func checkActions(o observed) (*snapshot, *rejection) {
	if o.blueprintsTooLarge != "" {
		return nil, invalid(o.blueprintsTooLarge)
	}
	r, size, sizes := &snapshot{}, 0, map[string]int{}
	for _, spec := range o.set.Spec.Actions {
		warn := func(reason, message string) *rejection {
			return &rejection{message: message, events: []recordEvent{warning(reason, "Could not get blueprint: "+message)}}
		}
		if spec.Blueprint == "" {
			return nil, warn("Blueprint not specified", "Blueprint is not specified for action")
		}
		named := o.blueprints[spec.Blueprint]
		if named == nil {
			return nil, warn("Error", fmt.Sprintf("Failed to query blueprint: blueprints.%s %q not found", v1alpha1.GroupName, spec.Blueprint))
		}
		action, found := named.Actions[spec.Name]
		if !found {
			message := fmt.Sprintf("Action %s for object kind %s not found in blueprint %s", spec.Name, spec.Object.Kind, spec.Blueprint)
			return nil, &rejection{message: message, events: failureEvents(&spec, "Could not get initial action: "+message)}
		}
		of := spec.Blueprint + "/" + spec.Name
		if _, known := sizes[of]; !known {
			sizes[of] = sizeOf(action)
		}
		if size += sizeOf(spec) + sizes[of]; size > corev1.MaxSecretSize {
			return nil, invalid(snapshotTooLarge(size))
		}
		r.Actions = append(r.Actions, snapshotAction{Spec: *spec.DeepCopy(), Blueprint: *action.DeepCopy(), Time: o.now.UTC().Format(time.RFC3339Nano)})
	}
	for i := range r.Actions {
		if key, message := checkAction(i, &r.Actions[i]); message != "" {
			refused := launchFailure(o, r, key, message)
			return nil, &refused
		}
	}
	return r, nil
}

// checkAction returns what is wrong with an action, and in which of its phases; "" if it can be run.
func checkAction(i int, action *snapshotAction) (key phaseKey, message string) {
	if err := blueprint.CheckVersion(action.Spec.PreferredVersion); err != nil {
		return phaseKey{i, 0}, err.Error()
	}
	names := map[string]bool{}
	check := func(p *v1alpha1.BlueprintPhase) string {
		if names[p.Name] {
			return fmt.Sprintf("two phases of action %s in blueprint %s are named %q: give each a name of its own", action.Spec.Name, action.Spec.Blueprint, p.Name)
		}
		names[p.Name] = true
		if n := len(p.Objects); n > maxNames {
			return fmt.Sprintf("phase %s of action %s in blueprint %s has %d objects, and may have %d: put what they hold into fewer objects",
				p.Name, action.Spec.Name, action.Spec.Blueprint, n, maxNames)
		}
		function, err := blueprint.Lookup(p.Func)
		if err != nil {
			return err.Error()
		}
		args, err := objectOf(p.Args)
		if err != nil {
			return fmt.Sprintf("reading the args of phase %s: %v", p.Name, err)
		}
		if err := function.Validate(args); err != nil {
			return err.Error()
		}
		return ""
	}
	for p := range action.Blueprint.Phases {
		if message := check(&action.Blueprint.Phases[p]); message != "" {
			return phaseKey{i, p}, message
		}
	}
	if action.Blueprint.DeferPhase != nil {
		return phaseKey{i, phase.Deferred}, check(action.Blueprint.DeferPhase)
	}
	return phaseKey{}, ""
}

// launchFailure returns the rejection for an action that cannot be started. Then no other action is started either.
func launchFailure(o observed, r *snapshot, key phaseKey, message string) rejection {
	spec := &r.Actions[key.action].Spec
	refused := rejection{message: message, actions: actionStatuses(r)}
	if p := phaseIn(&v1alpha1.ActionSetStatus{Actions: refused.actions}, key); p != nil {
		p.State = v1alpha1.StateFailed
	}
	refused.events = append([]recordEvent{{eventType: corev1.EventTypeNormal, reason: "Started Action", message: "Executing action " + spec.Name}},
		failureEvents(spec, fmt.Sprintf("Failed to launch Action %s: %s", o.set.Name, message))...)
	return refused
}

// missingInputs returns warnings about inputs that the Blueprint names and the ActionSet does not give. A template that needs one of them fails.
func missingInputs(action *snapshotAction) (events []recordEvent) {
	for _, input := range []struct {
		what  string
		names []string
		given func(name string) bool
	}{
		{"artifacts", action.Blueprint.InputArtifactNames, func(name string) bool { _, ok := action.Spec.Artifacts[name]; return ok }},
		{"ConfigMaps", action.Blueprint.ConfigMapNames, func(name string) bool { _, ok := action.Spec.ConfigMaps[name]; return ok }},
		{"Secrets", action.Blueprint.SecretNames, func(name string) bool { _, ok := action.Spec.Secrets[name]; return ok }},
	} {
		missing := slices.DeleteFunc(slices.Clone(input.names), input.given)
		if len(missing) > 0 {
			events = append(events, recordEvent{eventType: corev1.EventTypeWarning, reason: "MissingInput", message: fmt.Sprintf(
				"Action %s of blueprint %s names %s that the ActionSet does not give: %s", action.Spec.Name, action.Spec.Blueprint, input.what, strings.Join(missing, ", "))})
		}
	}
	return events
}
