// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/actionset"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

var (
	actionSets = v1alpha1.Resource("actionsets").WithVersion(v1alpha1.GroupVersion.Version)
	blueprints = v1alpha1.Resource("blueprints").WithVersion(v1alpha1.GroupVersion.Version)
)

func TestActionSet(t *testing.T) {
	type acts = []perturbation.Act
	tests := map[string]struct {
		given, acts acts
		// effects of the phases of each action, in their order. No effect may be missing or come twice.
		effects [][]string
		// snapshots is the number of ActionSets that get a snapshot.
		snapshots int
		// start is startActionSets if it is nil.
		start func(ctx context.Context, config *rest.Config, namespace string) error
		// more is true for a test that runs only if all patterns are tried.
		more bool
	}{
		"ten phases": {
			given: acts{makeBlueprint(tenPhases), makeDeployment(), makeConfigMapOf("old", "x")},
			acts:  acts{runSet("Deployment", "1", completed)},
			effects: [][]string{{
				"first: first=1", "named: named=first", "patched: first=3", "scaled: web x2", "count: count=1",
				"old: old is gone", "again: first=8", "many: many-a=1", "many: many-b=2", "last: last=3", "cleanup: cleanup=1",
			}},
			snapshots: 1,
		},
		"two concurrent actions": {
			given:     acts{makeBlueprint(twoActions)},
			acts:      acts{runBoth(completed)},
			effects:   [][]string{{"a1: a1=1", "a2: a2=a1"}, {"b1: b1=1", "b2: b2=2"}},
			snapshots: 1,
		},
		"cancelled in the middle": {
			given:     acts{makeBlueprint(waitsInTheMiddle), makeConfigMapOf("gate", "closed"), runSet("Namespace", "1", runsPhase("wait"))},
			acts:      acts{act("cancel", cancelSet, failed)},
			effects:   [][]string{{"before: before-1=1", "cleanup: cleanup-1=1"}},
			snapshots: 1,
		},
		"deleted in the middle": {
			given:     acts{makeBlueprint(waitsInTheMiddle), makeConfigMapOf("gate", "closed"), runSet("Namespace", "1", runsPhase("wait"))},
			acts:      acts{act("delete", remove(actionSets, name, metav1.DeletePropagationBackground), setIsGone)},
			effects:   [][]string{{"before: before-1=1", "cleanup: cleanup-1=1"}},
			snapshots: 1,
		},
		"a phase fails": {
			given:     acts{makeBlueprint(failsInTheMiddle), makeConfigMapOf("taken", "theirs")},
			acts:      acts{runSet("Namespace", "1", failed)},
			effects:   [][]string{{"before: before=1", "cleanup: cleanup=1"}},
			snapshots: 1, more: true,
		},
		"its Secret goes": {
			given: acts{makeBlueprint(usesSecret), runWithSecret(runsPhase("wait"))},
			acts: acts{act("delete the Secret, and open the gate", in(remove(secrets, "creds", metav1.DeletePropagationBackground),
				setLabel(blueprints, name, "gate", "open")), completed)},
			effects:   [][]string{{"before: before=1", "after: after=2", "cleanup: cleanup=3"}},
			snapshots: 1,
		},
		"its rights go": {
			given:     acts{giveActionRights(), makeBlueprint(waitsInTheMiddle), makeConfigMapOf("gate", "closed"), runSet("Namespace", "1", runsPhase("wait"))},
			acts:      acts{act("take the rights of its phases, and cancel", in(take(phaseRights, configMaps), cancelSet), failed), removeSet()},
			effects:   [][]string{{"before: before-1=1"}},
			snapshots: 1, start: startRestrictedActionSets,
		},
		"the right to its snapshot goes": {
			given: acts{giveActionRights(), makeBlueprint(usesSecret), runWithSecret(runsPhase("wait"))},
			acts: acts{
				act("take the right, and open the gate", in(take(snapshotRights, secrets), setLabel(blueprints, name, "gate", "open")), completeOrUnread),
				act("give it back", give(snapshotRights, secrets), completed),
			},
			effects:   [][]string{{"before: before=1", "after: after=2", "cleanup: cleanup=3"}},
			snapshots: 1, start: startRestrictedActionSets,
		},
		"the namespace of its application goes": {
			given:     acts{makeApplication(), runSet("Namespace", "1", runsPhase("wait"))},
			acts:      acts{act("delete the namespace, and cancel", in(removeApplication, cancelSet), failed), removeSet()},
			effects:   [][]string{{"cleanup: cleanup=1"}},
			snapshots: 1,
		},
		// Without a deferPhase there is no finalizer: the old ActionSet is gone when the new one is created.
		"deleted in the middle and created again": {
			given: acts{makeBlueprint(withoutDeferPhase), makeConfigMapOf("gate", "closed"), runSet("Namespace", "1", runsPhase("wait"))},
			acts: acts{{
				Name: "delete it, open the gate and create it again",
				Do: in(remove(actionSets, name, metav1.DeletePropagationBackground),
					patch(configMaps, "gate", map[string]any{"data": map[string]any{"value": "open"}}), makeSet("Namespace", "2")),
				Lagging: actionSets.Resource, Until: completed,
			}},
			effects:   [][]string{{"before: before-1=1", "before: before-2=2", "after: after-2=2"}},
			snapshots: 2,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.more && os.Getenv(perturbation.AllPatternsVariable) == "" {
				t.Skipf("runs only if %s is set", perturbation.AllPatternsVariable)
			}
			t.Parallel()
			if test.start == nil {
				test.start = startActionSets
			}
			perturbation.Test(t, testcluster.Shared(t), perturbation.Scenario{
				Name: name, Given: test.given, Acts: test.acts, Flicker: flickerSet,
				Start:     test.start,
				Resources: []schema.GroupVersionResource{actionSets, configMaps, deployments},
				Normalize: normalizeRun,
				Invariants: []perturbation.Invariant{
					{Name: "phases have their effects once, in their order, and while they run", Check: effectsAre(test.effects)},
					{Name: "nothing is requested twice", CheckWrites: requestedOnce(test.effects, test.snapshots)},
					{Name: "states do not go back", Check: statesGoOn},
				},
			})
		})
	}
}

// startActionSets runs one instance of the controller for a namespace.
func startActionSets(ctx context.Context, config *rest.Config, namespace string) error {
	client, kubeClient, err := clients(config)
	if err != nil {
		return err
	}
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
	defer factory.Shutdown()
	cr := factory.Cr().V1alpha1()
	c, err := actionset.New(ctx, actionset.Config{
		Client: client, KubeClient: kubeClient, RESTConfig: config,
		ActionSets: cr.ActionSets(), Blueprints: cr.Blueprints(),
		Recorder: controller.StartEvents(ctx, kubeClient).Recorder(scheme.Scheme, actionset.EventSource),
	})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	c.Run(ctx, 2)
	return nil
}

// normalizeRun removes the resourceVersions from the status, which records what phases were about to write.
func normalizeRun(object *unstructured.Unstructured) {
	normalizeDeployment(object)
	removeVersions(object.Object["status"])
	// These are made from times and UIDs.
	unstructured.RemoveNestedField(object.Object, "status", "lastEvent", "name")
	unstructured.RemoveNestedField(object.Object, "status", "snapshot", "digest")
}

func removeVersions(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "resourceVersion")
		for _, field := range value {
			removeVersions(field)
		}
	case []any:
		for _, item := range value {
			removeVersions(item)
		}
	}
}
