// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/testing/fakeapi"
)

const (
	dynamic    = v1alpha1.ApplyDynamic
	serverSide = v1alpha1.ApplyServerSide
)

// deploymentWith is the answer of a hook with a Deployment, whose metadata and container have more.
func deploymentWith(metadata, container string) string {
	return fmt.Sprintf(`{"status":{"ready":1},"children":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"a"%s}},"spec":{
		"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"one"%s}]}}}}]}`, metadata, container)
}

// strategyTest is a parent whose child is a Deployment. Each sync is one of another process.
type strategyTest struct {
	t      *testing.T
	api    *fakeAPI
	method v1alpha1.ChildUpdateMethod
	// desired is the last answer of the hook.
	desired string
}

func newStrategyTest(t *testing.T, method v1alpha1.ChildUpdateMethod) *strategyTest {
	return &strategyTest{t: t, api: startFakeAPI(t, string(parentWith(""))), method: method}
}

// start returns a sync with the newest caches.
func (s *strategyTest) start(strategy v1alpha1.ApplyStrategy) *syncTest {
	s.t.Helper()
	s.api.Thaw()
	return newSyncTest(s.t, s.api, func(spec *v1alpha1.CompositeControllerSpec) {
		spec.ApplyStrategy = strategy
		spec.ChildResources[0].ResourceRule = v1alpha1.ResourceRule{APIVersion: "apps/v1", Resource: "deployments"}
		spec.ChildResources[0].UpdateStrategy.Method = s.method
	})
}

// sync syncs, and checks the requests about the child.
func (s *strategyTest) sync(strategy v1alpha1.ApplyStrategy, body string, want ...string) {
	s.t.Helper()
	if err := s.start(strategy).answered(phaseSync, body); err != nil {
		s.t.Fatal(err)
	}
	s.wantDid(want...)
}

func (s *strategyTest) wantDid(want ...string) {
	s.t.Helper()
	var did []string
	for _, request := range s.api.did() {
		if !strings.Contains(request, "things") {
			did = append(did, request)
		}
	}
	if diff := cmp.Diff(want, did); diff != "" {
		s.t.Errorf("requests about the child (-want +got):\n%s", diff)
	}
}

// edit changes the child as another client does.
func (s *strategyTest) edit(change func(o *unstructured.Unstructured)) {
	s.api.objects["deployments"].Update("ns", "web", change)
}

func (s *strategyTest) child() *unstructured.Unstructured {
	s.t.Helper()
	child := s.api.objects["deployments"].Get("ns", "web")
	if child == nil {
		s.t.Fatal("there is no child")
	}
	return child
}

// wantLabels checks the labels of the child, and that it has the record of a strategy alone.
func (s *strategyTest) wantLabels(strategy v1alpha1.ApplyStrategy, want string) {
	s.t.Helper()
	child := s.child()
	if got := fmt.Sprint(child.GetLabels()); got != "map["+want+"]" {
		s.t.Errorf("labels are %s, want %s", got, want)
	}
	annotations := child.GetAnnotations()
	if hasRecord, hasHash := annotations[merge.LastAppliedAnnotation] != "", annotations[merge.AppliedHashAnnotation] != ""; hasRecord != (strategy == dynamic) ||
		hasHash != (strategy == serverSide) {
		s.t.Errorf("annotations are %v, want the record of %s", annotations, strategy)
	}
}

const (
	applied  = "PATCH deployments/web"
	tried    = "PATCH deployments/web (dry run)"
	withB    = `,"b":"1"`
	withPort = `,"ports":[{"containerPort":80}],"env":[{"name":"E","value":"1"}]`
)

func setLabel(key, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		labels := o.GetLabels()
		labels[key] = value
		o.SetLabels(labels)
	}
}

func TestServerSideApply(t *testing.T) {
	s := newStrategyTest(t, v1alpha1.ChildUpdateInPlace)
	s.sync(serverSide, deploymentWith(withB, withPort), applied)
	s.wantLabels(serverSide, "app:a b:1")
	for _, entry := range s.child().GetManagedFields() {
		if entry.Manager != "metacontroller" || entry.Operation != "Apply" {
			t.Errorf("fields are managed by %s, operation %s", entry.Manager, entry.Operation)
		}
	}
	s.sync(serverSide, deploymentWith(withB, withPort)) // another process applies nothing

	s.edit(setLabel("theirs", "1"))
	s.sync(serverSide, deploymentWith(withB, withPort)) // a field that the hook does not desire is no difference
	s.edit(setLabel("b", "2"))
	s.sync(serverSide, deploymentWith(withB, withPort), applied)
	s.wantLabels(serverSide, "app:a b:1 theirs:1")

	s.sync(serverSide, deploymentWith("", ""), applied)
	s.wantLabels(serverSide, "app:a theirs:1")
	containers, _, _ := unstructured.NestedSlice(s.child().Object, "spec", "template", "spec", "containers")
	if container := containers[0].(map[string]any); container["ports"] != nil || container["env"] != nil {
		t.Errorf("the container keeps what is not desired any more: %v", container)
	}
}

func TestApplyThatChangesNothing(t *testing.T) {
	// The API server merges finalizers as a set: they differ from what is desired for ever.
	desired := strings.Replace(deploymentWith("", ""), `"name":"web",`, `"name":"web","finalizers":["example.com/ours"],`, 1)
	s := newStrategyTest(t, v1alpha1.ChildUpdateInPlace)
	s.sync(serverSide, desired, applied)
	s.edit(func(o *unstructured.Unstructured) {
		o.SetFinalizers([]string{"example.com/ours", "example.com/theirs"})
	})
	next := s.start(serverSide)
	if err := next.answered(phaseSync, desired); err != nil {
		t.Fatal(err)
	}
	s.wantDid(applied)
	history := next.state.history
	s.edit(setLabel("theirs", "1"))
	after := s.start(serverSide)
	after.state.history = history
	if err := after.answered(phaseSync, desired); err != nil {
		t.Fatal(err)
	}
	s.wantDid() // a change of another field does not repeat it
	if after.wantEvents(); after.after != 0 {
		t.Errorf("the next sync is after %s, want none", after.after)
	}
}

func TestApplyTakesNoForeignObject(t *testing.T) {
	for name, owner := range map[string]*metav1.OwnerReference{
		"without an owner":     nil,
		"another controller's": {APIVersion: "example.com/v1", Kind: "Thing", Name: "other", UID: "other", Controller: ptr(true)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStrategyTest(t, v1alpha1.ChildUpdateInPlace)
			stale := s.start(serverSide)
			// It has all fields of the child, so that there is no conflict with its managers.
			s.api.put(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"ns","name":"web","labels":{"app":"a"}},"spec":{
				"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"one"}]}}}}`)
			if owner != nil {
				s.edit(func(o *unstructured.Unstructured) { o.SetOwnerReferences([]metav1.OwnerReference{*owner}) })
			}
			before := s.child()
			if err := stale.answered(phaseSync, deploymentWith("", "")); err != nil {
				t.Fatal(err)
			}
			s.wantDid(applied, "GET deployments/web")
			stale.wantEvents(controller.ReasonResourceExists)
			if diff := cmp.Diff(before, s.child()); diff != "" {
				t.Errorf("the foreign object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestStaleApplyChangesNothing(t *testing.T) {
	for name, meanwhile := range map[string]func(s *strategyTest){
		"changed": func(s *strategyTest) { s.edit(setLabel("theirs", "1")) },
		"deleted": func(s *strategyTest) { s.api.drop("deployments/web") },
		"replaced": func(s *strategyTest) {
			s.api.drop("deployments/web")
			s.api.put(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"ns","name":"web","uid":"other","labels":{"theirs":"1"}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStrategyTest(t, v1alpha1.ChildUpdateInPlace)
			s.sync(serverSide, deploymentWith(withB, ""), applied)
			stale := s.start(serverSide)
			meanwhile(s)
			before := s.api.objects["deployments"].Get("ns", "web")
			if err := stale.answered(phaseSync, deploymentWith("", "")); !apierrors.IsConflict(err) {
				t.Errorf("the error is %v, want a conflict", err)
			}
			if diff := cmp.Diff(before, s.api.objects["deployments"].Get("ns", "web")); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestSwitchOfStrategyChangesNothing(t *testing.T) {
	for _, method := range Composite.methods() {
		for from, to := range map[v1alpha1.ApplyStrategy]v1alpha1.ApplyStrategy{dynamic: serverSide, serverSide: dynamic} {
			t.Run(fmt.Sprintf("%s from %s", method, from), func(t *testing.T) {
				s := newStrategyTest(t, method)
				created := map[v1alpha1.ApplyStrategy]string{dynamic: "POST deployments/web", serverSide: applied}[from]
				s.sync(from, deploymentWith(withB, withPort), created)
				before := s.child()
				for _, strategy := range []v1alpha1.ApplyStrategy{to, from, to} {
					s.sync(strategy, deploymentWith(withB, withPort))
				}
				if diff := cmp.Diff(before, s.child()); diff != "" {
					t.Errorf("the child was changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// A child that the API server stores in another way is not created again by a switch.
func TestSwitchKeepsWhatIsStoredOtherwise(t *testing.T) {
	for from, to := range map[v1alpha1.ApplyStrategy]v1alpha1.ApplyStrategy{dynamic: serverSide, serverSide: dynamic} {
		t.Run("from "+string(from), func(t *testing.T) {
			s := newStrategyTest(t, v1alpha1.ChildUpdateRecreate)
			desired := deploymentWith("", `,"resources":{"limits":{"cpu":"1000m"}}`)
			if err := s.start(from).answered(phaseSync, desired); err != nil {
				t.Fatal(err)
			}
			s.edit(storeQuantity)
			s.api.did()
			s.sync(to, desired)
		})
	}
}

// storeQuantity writes the quantity of a Deployment as the API server stores it, when it is created.
func storeQuantity(o *unstructured.Unstructured) {
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["resources"] = map[string]any{"limits": map[string]any{"cpu": "1"}}
	_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	o.SetGeneration(1)
}

// A switch back, after a process was killed between the two writes of a switch, orphans nothing.
func TestSwitchBackInTheMiddle(t *testing.T) {
	s := newStrategyTest(t, v1alpha1.ChildUpdateInPlace)
	if err := s.start(dynamic).answered(phaseSync, deploymentWith(withB, withPort)); err != nil {
		t.Fatal(err)
	}
	s.failRequest(3)
	if err := s.start(serverSide).answered(phaseSync, deploymentWith("", "")); err == nil {
		t.Fatal("the sync succeeded")
	}
	s.wantLabels(serverSide, "app:a b:1")
	s.api.fails("none", 0, "")
	s.api.did()
	s.sync(dynamic, deploymentWith("", ""), "GET deployments/web", "PUT deployments/web")
	s.wantLabels(dynamic, "app:a")
}

// duringSwitches switches a child in both directions, and has another client act before each of the requests of a switch. It checks the error of the sync,
// acted is whether there was such a request.
func duringSwitches(t *testing.T, act func(*strategyTest), check func(s *strategyTest, acted bool, err error)) {
	for from, to := range map[v1alpha1.ApplyStrategy]v1alpha1.ApplyStrategy{dynamic: serverSide, serverSide: dynamic} {
		for _, at := range []string{"GET", "PATCH", "PUT"} {
			t.Run(fmt.Sprintf("from %s, at the %s", from, at), func(t *testing.T) {
				s := newStrategyTest(t, v1alpha1.ChildUpdateInPlace)
				if err := s.start(from).answered(phaseSync, deploymentWith(withB, "")); err != nil {
					t.Fatal(err)
				}
				next, acted := s.start(to), false
				s.api.meanwhile = func(request string) {
					if !acted && request == at+" deployments/web" {
						acted = true
						act(s)
					}
				}
				check(s, acted, next.answered(phaseSync, deploymentWith("", "")))
			})
		}
	}
}

// A child that is deleted while it is switched is no failure: the next sync creates it again.
func TestSwitchOfDeletedChild(t *testing.T) {
	duringSwitches(t, func(s *strategyTest) { s.api.objects["deployments"].Remove("ns", "web") }, func(s *strategyTest, _ bool, err error) {
		if err != nil {
			s.t.Error(err)
		}
	})
}

// What changes while a child is switched is not overwritten.
func TestSwitchOfChangedChild(t *testing.T) {
	duringSwitches(t, func(s *strategyTest) { s.edit(setLabel("b", "theirs")) }, func(s *strategyTest, changed bool, err error) {
		if changed && !apierrors.IsConflict(err) || !changed && err != nil {
			s.t.Errorf("the error is %v, want a conflict: %t", err, changed)
		}
		if got := s.child().GetLabels()["b"]; changed && got != "theirs" {
			s.t.Errorf("the label is %q, want that of the other client", got)
		}
	})
}

func TestSwitchOfStrategyWithChange(t *testing.T) {
	requests := map[v1alpha1.ApplyStrategy][]string{
		serverSide: {"GET deployments/web", applied, applied},
		dynamic:    {"GET deployments/web", "PUT deployments/web"},
	}
	for from, to := range map[v1alpha1.ApplyStrategy]v1alpha1.ApplyStrategy{dynamic: serverSide, serverSide: dynamic} {
		for failing := range len(requests[to]) + 1 {
			t.Run(fmt.Sprintf("from %s, request %d fails", from, failing), func(t *testing.T) {
				s := newStrategyTest(t, v1alpha1.ChildUpdateInPlace)
				if err := s.start(from).answered(phaseSync, deploymentWith(withB, withPort)); err != nil {
					t.Fatal(err)
				}
				s.edit(setLabel("theirs", "1"))
				s.api.did()
				uid := s.child().GetUID()

				if failing > 0 {
					s.failRequest(failing)
					if err := s.start(to).answered(phaseSync, deploymentWith("", "")); err == nil {
						t.Error("the sync succeeded")
					}
					s.api.fails("none", 0, "")
					s.api.did()
					if err := s.start(to).answered(phaseSync, deploymentWith("", "")); err != nil {
						t.Fatal(err)
					}
				} else {
					s.sync(to, deploymentWith("", ""), requests[to]...)
				}
				s.wantLabels(to, "app:a theirs:1")
				container, _, _ := unstructured.NestedSlice(s.child().Object, "spec", "template", "spec", "containers")
				if keys := container[0].(map[string]any); keys["ports"] != nil || keys["env"] != nil {
					t.Errorf("fields are orphaned: %v", keys)
				}
				if s.child().GetUID() != uid {
					t.Error("the child was created again")
				}
				s.api.did()
				s.sync(to, deploymentWith("", ""))
				s.sync(from, deploymentWith("", ""))
				s.sync(from, deploymentWith(withB, withPort), requests[from]...)
				s.sync(from, deploymentWith("", ""), requests[from][len(requests[from])-1])
				s.wantLabels(from, "app:a theirs:1")
			})
		}
	}
}

// failRequest makes the request with a number fail that is about the child.
func (s *strategyTest) failRequest(number int) {
	seen := 0
	s.api.FailIf(func(r *fakeapi.Request) error {
		if r.Resource == deployments.GroupVersionResource && r.Verb != "list" && r.Verb != "watch" {
			if seen++; seen == number {
				return apierrors.NewInternalError(errors.New("no"))
			}
		}
		return nil
	})
}

func TestRecreateByApplyDoesNotLoop(t *testing.T) {
	s := newStrategyTest(t, v1alpha1.ChildUpdateRecreate)
	quantity := `,"resources":{"limits":{"cpu":"1000m"}}`
	s.sync(serverSide, deploymentWith("", quantity), applied)
	s.edit(storeQuantity)
	s.sync(serverSide, deploymentWith("", quantity))
	removing := s.start(serverSide)
	if err := removing.answered(phaseSync, deploymentWith("", "")); err != nil {
		t.Fatal(err)
	}
	s.wantDid(tried, "DELETE deployments/web") // only the API server knows that something is removed
	removing.wantEvents(eventRecreated)
	s.sync(serverSide, deploymentWith("", ""), applied)
	s.sync(serverSide, deploymentWith("", ""))
	uid := s.child().GetUID()
	s.edit(setLabel("b", "1"))
	s.sync(serverSide, deploymentWith(withB, ""), tried, applied) // as when the hook desires what was a default so far
	s.sync(serverSide, deploymentWith(`,"b":"2"`, ""), tried, "DELETE deployments/web")
	s.sync(serverSide, deploymentWith(`,"b":"2"`, ""), applied)
	if s.child().GetUID() == uid {
		t.Error("the child was updated")
	}
}

// addFinalizer is an edit of another client, whose element of a set no apply removes.
func addFinalizer(o *unstructured.Unstructured) {
	o.SetFinalizers(append(o.GetFinalizers(), "example.com/theirs"))
}

// withFinalizer is metadata with an annotation.
const withFinalizer = `},"finalizers":["example.com/mine"],"annotations":{"mine":"a"`

// What another client adds is no reason to create a child again, if an apply keeps it.
func TestRecreateByApplyKeepsWhatOthersAdd(t *testing.T) {
	s := newStrategyTest(t, v1alpha1.ChildUpdateRecreate)
	s.sync(serverSide, deploymentWith(withFinalizer, ""), applied)
	s.edit(addFinalizer)
	keeps := s.start(serverSide)
	if err := keeps.answered(phaseSync, deploymentWith(withFinalizer, "")); err != nil {
		t.Fatal(err)
	}
	s.wantDid(tried)
	keeps.wantEvents()
	s.edit(func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		annotations["mine"] = "theirs"
		o.SetAnnotations(annotations)
	})
	s.sync(serverSide, deploymentWith(withFinalizer, ""), tried, "POST deployments/web-00002 (dry run)", "DELETE deployments/web")
}

// A child without a record, of Metacontroller's server-side apply, is created again only if that changes it.
func TestUnrecordedChildOfPeer(t *testing.T) {
	for method, changed := range map[v1alpha1.ChildUpdateMethod][]string{
		v1alpha1.ChildUpdateRecreate: {tried, "POST deployments/web-00002 (dry run)", "DELETE deployments/web"},
		v1alpha1.ChildUpdateInPlace:  {applied},
	} {
		t.Run(string(method), func(t *testing.T) {
			s := newStrategyTest(t, method)
			withFinalizer := withB + `},"finalizers":["example.com/mine"],"annotations":{`
			s.sync(serverSide, deploymentWith(withFinalizer, ""), applied)
			forget := func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }
			s.edit(forget)
			same := []string{applied}
			if method == v1alpha1.ChildUpdateRecreate {
				same = []string{tried, applied}
			}
			s.sync(serverSide, deploymentWith(withFinalizer, ""), same...)
			s.wantLabels(serverSide, "app:a b:1")
			s.edit(forget)
			s.edit(addFinalizer) // the child differs, although no apply changes it
			s.sync(serverSide, deploymentWith(withFinalizer, ""), same...)
			s.wantLabels(serverSide, "app:a b:1")
			s.edit(forget)
			s.sync(serverSide, deploymentWith(`,"b":"2"`, ""), changed...)
		})
	}
}

// What Metacontroller has applied server-side, without a record, and the hook desires no more is removed by dynamic apply, too.
func TestDynamicApplyOfUnrecordedChild(t *testing.T) {
	for method, want := range map[v1alpha1.ChildUpdateMethod]string{
		v1alpha1.ChildUpdateRecreate: "DELETE deployments/web", v1alpha1.ChildUpdateInPlace: "PUT deployments/web",
	} {
		t.Run(string(method), func(t *testing.T) {
			s := newStrategyTest(t, method)
			s.sync(serverSide, deploymentWith(withB, ""), applied)
			s.edit(func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
			s.edit(setLabel("theirs", "a"))
			s.sync(dynamic, deploymentWith("", ""), "GET deployments/web", want)
			if method == v1alpha1.ChildUpdateInPlace {
				s.wantLabels(dynamic, "app:a theirs:a")
			}
			if method == v1alpha1.ChildUpdateRecreate { // a value that differs may be what every creation has
				s = newStrategyTest(t, method)
				s.sync(serverSide, deploymentWith(withB, ""), applied)
				s.edit(func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
				s.sync(dynamic, deploymentWith(`,"b":"2"`, ""), "POST deployments/web-00002 (dry run)", want)
			}
		})
	}
}

// An update that is refused may be a recreation that is not, of an immutable field say.
func TestRecreateByApplyAfterRefusal(t *testing.T) {
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	for name, test := range map[string]struct {
		refusal error
		want    []string
		fails   bool
	}{
		"an immutable field": {apierrors.NewInvalid(kind, "web", nil), []string{tried, "DELETE deployments/web"}, false},
		"a webhook":          {apierrors.NewBadRequest("denied the request"), []string{tried, "DELETE deployments/web"}, false},
		"a policy":           {apierrors.NewForbidden(deployments.GroupResource(), "web", errors.New("denied request")), []string{tried, "DELETE deployments/web"}, false},
		"the schema":         {apierrors.NewBadRequest("failed to create typed patch object"), []string{tried}, true},
		"no right":           {apierrors.NewForbidden(deployments.GroupResource(), "web", errors.New("User \"u\" cannot patch")), []string{tried}, true},
		"no such type":       {apierrors.NewNotFound(deployments.GroupResource(), "web"), []string{tried}, false},
		"an outage":          {apierrors.NewInternalError(errors.New("down")), []string{tried}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStrategyTest(t, v1alpha1.ChildUpdateRecreate)
			s.sync(serverSide, deploymentWith("", ""), applied)
			s.api.FailIf(func(r *fakeapi.Request) error {
				if r.Resource == deployments.GroupVersionResource && r.Verb == "patch" {
					return test.refusal
				}
				return nil
			})
			if err := s.start(serverSide).answered(phaseSync, deploymentWith(withB, "")); (err != nil) != test.fails {
				t.Errorf("the error is %v, want one: %t", err, test.fails)
			}
			s.wantDid(test.want...)
		})
	}
}

// A child that no apply could create again is not deleted.
func TestRecreateByApplyOfRefusedChild(t *testing.T) {
	const twice = `,"env":[{"name":"A"},{"name":"A"}]`
	s := newStrategyTest(t, v1alpha1.ChildUpdateRecreate)
	s.sync(dynamic, deploymentWith(withB, twice), "POST deployments/web")
	err := s.start(serverSide).answered(phaseSync, deploymentWith("", twice))
	if _, rejected := errors.AsType[*rejectedError](err); !rejected {
		t.Errorf("the error is %v, want that the child is rejected", err)
	}
	s.wantDid(tried)
	s.wantLabels(dynamic, "app:a b:1")
}

func TestRightsThatAnApplyNeeds(t *testing.T) {
	denied := func(verb string) error {
		return fmt.Errorf("deployments.apps %q is forbidden: User \"u\" cannot %s resource", "web", verb)
	}
	for _, test := range []struct {
		step childStep
		err  error
		want string
	}{
		{childStep{verb: verbCreate, serverSide: true}, denied("patch"), "patch"},
		{childStep{verb: verbCreate, serverSide: true}, denied("create"), "create"},
		{childStep{verb: verbUpdate, serverSide: true}, denied("patch"), "patch"},
		{childStep{verb: verbUpdate}, denied("update"), "update"},
	} {
		if got := test.step.deniedVerb(test.err); got != test.want {
			t.Errorf("%v: %v: got %s, want %s", test.step, test.err, got, test.want)
		}
	}
}

func TestLargeChildIsAppliedServerSide(t *testing.T) {
	large := deploymentWith("", `,"env":[{"name":"E","value":"`+strings.Repeat("x", 300<<10)+`"}]`)
	s := newStrategyTest(t, v1alpha1.ChildUpdateInPlace)
	if err := s.start(dynamic).answered(phaseSync, large); err == nil || !strings.Contains(err.Error(), "spec.applyStrategy to server-side-apply") {
		t.Errorf("the error is %v, want one that names the other strategy", err)
	}
	s.wantDid()
	s.sync(serverSide, large, applied)
	s.sync(serverSide, large)
}
