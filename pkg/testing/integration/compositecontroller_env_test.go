// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

// testLabel is the label with the test that a parent belongs to: all tests share one cluster, and most of them one engine, which serves the
// CompositeControllers whose label engineTest has the value sharedName.
const (
	testLabel  = "parent-of.test"
	sharedName = "shared"
)

// engineEnv is the environment of a test of the engine: a namespace, a CompositeController, and a hook.
type engineEnv struct {
	*env
	dynamic dynamic.Interface
	hook    *testHook
	// name is that of the test's CompositeController, 43 characters at most, because a finalizer has it.
	name string
	// servedBy is the value of the label engineTest of the test's CompositeControllers.
	servedBy string
}

// newEngineEnv returns an environment in which no engine runs yet.
func newEngineEnv(t *testing.T) *engineEnv {
	t.Helper()
	e := newEngineEnvIn(t, testcluster.Shared(t))
	installParents(e.env)
	return e
}

// newEngineEnvIn returns an environment in a cluster in which there need not be parents or rights to them.
func newEngineEnvIn(t *testing.T, cluster *testcluster.Cluster) *engineEnv {
	t.Helper()
	e := newEnv(t, cluster)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &engineEnv{env: e, dynamic: client, hook: startHook(t), name: "test" + e.namespace[len(e.namespace)-6:], servedBy: e.namespace}
}

// inSharedEngine returns an environment for a parallel test that shares its engine with other tests.
func inSharedEngine(t *testing.T) *engineEnv {
	t.Helper()
	t.Parallel()
	e := newEngineEnv(t)
	e.servedBy = sharedName
	theSharedEngine.use(t)
	return e
}

// sharedEngine runs while a test uses it.
type sharedEngine struct {
	mu    sync.Mutex
	users int
	stop  func() error
}

var theSharedEngine sharedEngine

func (s *sharedEngine) use(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users++; s.users == 1 {
		s.stop = startEngine(t, sharedName, engine.account(t, testcluster.Shared(t)).WriteKubeconfig(t))
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users--; s.users > 0 {
			return
		}
		if err := s.stop(); err != nil {
			t.Errorf("engine: %v", err)
		}
	})
}

// run starts an engine for this test alone. It runs until stop is called. The journal records its requests.
func (e *engineEnv) run(journal *faultproxy.Journal, changes ...func(*manager.Options)) (stop func()) {
	e.Helper()
	proxy, kubeconfig := e.startProxy(journal)
	return e.runVia(proxy, kubeconfig, changes...)
}

// startProxy starts a proxy for runVia: what it is to do from the beginning comes between the two.
func (e *engineEnv) startProxy(journal *faultproxy.Journal) (proxy *faultproxy.Proxy, kubeconfig string) {
	e.Helper()
	return startProxy(e, "engine", engine.account(e.T, e.cluster).Config, journal)
}

// runVia is run with a proxy.
func (e *engineEnv) runVia(proxy *faultproxy.Proxy, kubeconfig string, changes ...func(*manager.Options)) (stop func()) {
	e.Helper()
	stopEngine := startEngine(e.T, e.servedBy, kubeconfig, changes...)
	stop = sync.OnceFunc(func() {
		if err := stopEngine(); err != nil {
			e.Errorf("engine: %v", err)
		}
		proxy.Close()
	})
	e.Cleanup(stop)
	return stop
}

// setFlag sets a flag as the command line does.
func setFlag(t testing.TB, options *manager.Options, flag, value string) {
	t.Helper()
	if err := options.Set(flag, value); err != nil {
		t.Fatal(err)
	}
}

// startEngine starts an engine that serves the CompositeControllers with the label.
func startEngine(t *testing.T, label, kubeconfig string, changes ...func(*manager.Options)) (stop func() error) {
	t.Helper()
	options := manager.NewOptions()
	options.Kubeconfig, options.Controllers = kubeconfig, engine.controllers(t)
	setFlag(t, options, "target-label-selector", engineTest+"="+label)
	options.LeaderElect, options.ServingAddress = false, ""
	for _, change := range changes {
		change(options)
	}
	return startManager(t, options)
}

var parentsInstalled struct {
	sync.Mutex
	done bool
}

// installParents installs the CustomResourceDefinitions that most tests share, and grants engines the rights to parents and children.
func installParents(e *env) {
	e.Helper()
	parentsInstalled.Lock()
	defer parentsInstalled.Unlock()
	if !parentsInstalled.done {
		e.cluster.InstallCRDs(e, "pkg/testing/integration/testdata/compositecontroller")
		e.grantEngine(slices.Concat(
			rightsOnParents("test.example.com", "widgets"), rightsOnParents("test.example.com", "clusterwidgets"),
			rightsOnChildren("test.example.com", "clusterwidgets"), rightsOnChildren("", "configmaps"), rightsOnChildren("", "services"), rightsOnChildren("", "pods"),
			rightsOnChildren("apps", "deployments"), rightsOnChildren("apps", "statefulsets"),
			rightsOnChildren("networking.k8s.io", "networkpolicies"),
		)...)
		parentsInstalled.done = true
	}
}

// serves creates the test's CompositeController. Its spec is YAML in which HOOK stands for the hook's address. Unless the spec has a
// selector of parents, it selects those of the test.
func (e *engineEnv) serves(spec string) *unstructured.Unstructured {
	e.Helper()
	cc := e.composite(e.name, spec)
	created, err := e.at(composite).Create(e.Context(), cc, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.cleanUp(composite, created.GetName())
	return created
}

// composite is the kind CompositeController; see at.
const composite = "CompositeController.metacontroller.k8s.io/v1alpha1"

// cleanUp deletes a cluster-scoped object when the test ends, while its engine still runs, and waits until it is gone.
func (e *engineEnv) cleanUp(kind, name string) {
	objects := e.at(kind)
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
		defer cancel()
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			err := objects.Delete(ctx, name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		})
		if err != nil {
			e.Errorf("deleting %s %s: %v", kind, name, err)
		}
	})
}

// composite returns a CompositeController; see serves.
func (e *engineEnv) composite(name, spec string) *unstructured.Unstructured {
	e.Helper()
	cc := object(e, "{apiVersion: metacontroller.k8s.io/v1alpha1, kind: CompositeController, metadata: {name: %s, labels: {%s: %s}}}",
		name, engineTest, e.servedBy)
	cc.Object["spec"] = object(e, "%s", strings.ReplaceAll(spec, "HOOK", e.hook.URL)).Object
	if parent, ok := cc.Object["spec"].(map[string]any)["parentResource"].(map[string]any); ok && parent["labelSelector"] == nil {
		parent["labelSelector"] = map[string]any{"matchLabels": map[string]any{testLabel: e.namespace}}
	}
	return cc
}

// configMaps is a spec: the parents are Widgets, the children ConfigMaps with a generated selector that are updated in place.
const configMaps = `
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`

// controller returns the CompositeController of the name.
func (e *engineEnv) controller(name string) *v1alpha1.CompositeController {
	e.Helper()
	cc, err := e.client.MetacontrollerV1alpha1().CompositeControllers().Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return cc
}

// controllerVersion returns the resourceVersion of the test's CompositeController.
func (e *engineEnv) controllerVersion() string {
	e.Helper()
	return e.controller(e.name).ResourceVersion
}

// servingReasons are those of the condition Ready when it is True.
var servingReasons = []string{v1alpha1.ReasonServing, v1alpha1.ReasonParentsFailing}

// awaitReason waits until the condition Ready of the test's CompositeController has the reason, and returns its message.
func (e *engineEnv) awaitReason(reason string) (message string) {
	e.Helper()
	return e.awaitReasonOf(e.name, reason)
}

func (e *engineEnv) awaitReasonOf(name, reason string) (message string) {
	e.Helper()
	e.eventually(func() string {
		cc := e.controller(name)
		ready := meta.FindStatusCondition(cc.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != reason || ready.ObservedGeneration != cc.Generation {
			return fmt.Sprintf("condition Ready of CompositeController %s: got %+v, want reason %s", name, ready, reason)
		}
		if (ready.Status == metav1.ConditionTrue) != slices.Contains(servingReasons, reason) {
			e.Fatalf("condition Ready: got %+v, want it true only with the reason Serving", ready)
		}
		message = ready.Message
		return ""
	})
	return message
}
