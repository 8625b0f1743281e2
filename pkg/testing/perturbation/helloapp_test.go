// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/helloapp"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

var (
	apps        = v1.Resource("helloapps").WithVersion(v1.GroupVersion.Version)
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	services    = corev1.SchemeGroupVersion.WithResource("services")
)

func TestHelloApp(t *testing.T) {
	type acts = []perturbation.Act
	tests := map[string]struct {
		given, acts acts
		flicker     func(context.Context, *perturbation.User) error
		// deployments has for each Deployment of the namespace, in their order, the states that it passes through. No state may be missing
		// or come twice: that would be a rollout or a scaling that the user has not asked for.
		deployments [][]string
	}{
		"from nothing": {
			acts: acts{createApp(one)}, flicker: flickerSize,
			deployments: [][]string{{one}},
		},
		"port added and removed": {
			acts: acts{createApp(port), editApp("no port", spec{"port": nil}, one)}, flicker: flickerSize,
			deployments: [][]string{{port, one}},
		},
		"scale up and down": {
			given: acts{createApp(one)}, flicker: flickerDeploymentLabel,
			acts:        acts{editApp("scale up", spec{"size": int64(3)}, "nginx:1 x3"), editApp("scale down", spec{"size": int64(1)}, one)},
			deployments: [][]string{{one, "nginx:1 x3", one}},
		},
		"image changed twice": {
			given: acts{createApp(one)}, flicker: flickerSize,
			acts:        acts{editApp("another image", spec{"image": "nginx:2"}, "nginx:2 x1"), editApp("a third image", spec{"image": "nginx:3"}, "nginx:3 x1")},
			deployments: [][]string{{one, "nginx:2 x1", "nginx:3 x1"}},
		},
		"drift": {
			given: acts{createApp(one)}, acts: acts{driftAct(one)}, flicker: flickerDeploymentLabel,
			deployments: [][]string{{one, "drift:1 x3", one}},
		},
		"Deployment deleted": {
			given: acts{createApp(one)}, acts: acts{deleteDeployment(one)}, flicker: flickerSize,
			deployments: [][]string{{one}, {one}},
		},
		"orphan and adopt": {
			given: acts{createApp(port)}, acts: acts{orphanAndRecreate(port)}, flicker: flickerSize,
			deployments: [][]string{{port}},
		},
		"foreign Deployment": {
			given: acts{foreignDeployment()}, acts: acts{createAppInConflict(one, appInConflict), removeForeign(deployments, one)},
			deployments: [][]string{{"theirs:1 x1"}, {one}},
		},
		"foreign Service": {
			given: acts{foreignService()}, acts: acts{createAppInConflict(port, serviceInConflict), removeForeign(services, port)},
			deployments: [][]string{{port}},
		},
		"app deleted and recreated": {
			given: acts{createApp(port)}, acts: acts{recreateApp(port)}, flicker: flickerSize,
			deployments: [][]string{{port}, {port}},
		},
		"image removed and set": {
			given: acts{createApp(one)}, flicker: flickerSize,
			acts:        acts{withoutImage(), editApp("an image again", spec{"image": "nginx:2"}, "nginx:2 x1")},
			deployments: [][]string{{one}, {"nginx:2 x1"}},
		},
		"Deployment of the old operator": {
			given: acts{createAppWithoutImage(), oldDeployment()}, flicker: flickerSize,
			acts:        acts{editApp("set the image", spec{"image": "nginx:1"}, one)},
			deployments: [][]string{{"old:1 x1", one}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			perturbation.Test(t, testcluster.Shared(t), perturbation.Scenario{
				Name: name, Given: test.given, Acts: test.acts, Flicker: test.flicker,
				Start:     startHelloApps,
				Resources: []schema.GroupVersionResource{apps, deployments, services},
				Normalize: normalizeDeployment,
				Invariants: []perturbation.Invariant{
					{Name: "Deployments pass through the requested states", Check: passThrough(test.deployments)},
					{Name: "foreign objects are not written", Check: foreignIsNotWritten},
				},
			})
		})
	}
}

// startHelloApps runs one instance of the controller for a namespace.
func startHelloApps(ctx context.Context, config *rest.Config, namespace string) error {
	client, kubeClient, err := clients(config)
	if err != nil {
		return err
	}
	ours := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
	defer ours.Shutdown()
	kube := kubeinformers.NewSharedInformerFactoryWithOptions(kubeClient, 0, kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = controller.ManagedSelector
		}))
	defer kube.Shutdown()
	recorder := controller.StartEvents(ctx, kubeClient).Recorder(scheme.Scheme, helloapp.ControllerName)
	c, err := helloapp.New(ctx, client, kubeClient, ours.Apps().V1().HelloApps(), kube.Apps().V1().Deployments(), kube.Core().V1().Services(), recorder)
	if err != nil {
		return err
	}
	ours.StartWithContext(ctx)
	kube.StartWithContext(ctx)
	c.Run(ctx, 2)
	return nil
}

// replicaSetPattern matches the name of a ReplicaSet in a message. If a ReplicaSet of an earlier Deployment of the name still exists, the
// next one gets another name, and a collision is counted.
var replicaSetPattern = regexp.MustCompile(`"web-[a-z0-9]+"`)

// normalizeDeployment removes from a Deployment, and from the app's status that mirrors it, what depends on chance: revisions, collisions,
// terminating Pods, names of ReplicaSets. It also removes the generation of the HelloApp, because flickers increase it.
func normalizeDeployment(object *unstructured.Unstructured) {
	for _, annotation := range []string{"deployment.kubernetes.io/revision", helloapp.AnnotationGeneration} {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", annotation)
	}
	unstructured.RemoveNestedField(object.Object, "status", "terminatingReplicas")
	unstructured.RemoveNestedField(object.Object, "status", "collisionCount")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		if message, ok := condition.(map[string]any)["message"].(string); ok {
			condition.(map[string]any)["message"] = replicaSetPattern.ReplaceAllString(message, "<ReplicaSet>")
		}
	}
	if len(conditions) > 0 {
		_ = unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions") // status is a map, so this cannot fail
	}
}

// passThrough checks that the history has exactly these Deployments, never two at a time, and that each passes through exactly these
// states. This determines the ReplicaSets, too: there is one for each template.
func passThrough(want [][]string) func([]perturbation.Change) error {
	return func(history []perturbation.Change) error {
		var got [][]string
		var live types.UID
		for _, change := range history {
			if change.Resource != deployments {
				continue
			}
			deployment, err := typed[appsv1.Deployment](change.Object)
			if err != nil {
				return err
			}
			switch {
			case change.Deleted:
				live = ""
				continue
			case live == "":
				live = deployment.UID
				got = append(got, nil)
			case live != deployment.UID:
				return fmt.Errorf("at version %s there are two Deployments, %s and %s", deployment.ResourceVersion, live, deployment.UID)
			}
			if last := len(got) - 1; !slices.Equal(got[last][max(len(got[last])-1, 0):], []string{stateOf(deployment)}) {
				got[last] = append(got[last], stateOf(deployment))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("states of the Deployments (-want +got):\n%s", diff)
		}
		return nil
	}
}

// foreignIsNotWritten checks that the controller manages no field of a foreign object.
func foreignIsNotWritten(history []perturbation.Change) error {
	for _, change := range history {
		if change.Object.GetLabels()[theirs] == "" {
			continue
		}
		for _, entry := range change.Object.GetManagedFields() {
			if strings.HasPrefix(entry.Manager, helloapp.FieldManager) {
				object := change.Object
				return fmt.Errorf("at version %s the controller has written the foreign %s %s", object.GetResourceVersion(), object.GetKind(), object.GetName())
			}
		}
	}
	return nil
}
