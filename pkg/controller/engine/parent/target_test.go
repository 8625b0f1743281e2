// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/related"
)

type decoratorEdit = func(*v1alpha1.DecoratorControllerSpec)

// decoratorWith is a DecoratorController of Things with ConfigMaps, after some edits.
func decoratorWith(edits ...decoratorEdit) *v1alpha1.DecoratorController {
	dc := &v1alpha1.DecoratorController{ObjectMeta: metav1.ObjectMeta{Name: "dc", Generation: 7}}
	dc.Spec.Resources = []v1alpha1.DecoratorControllerResourceRule{{ResourceRule: v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "things"}}}
	dc.Spec.Hooks = &v1alpha1.DecoratorControllerHooks{Sync: webhookAt("http://hook/sync")}
	dc.Spec.Attachments = []v1alpha1.DecoratorControllerAttachmentRule{{
		ResourceRule:   v1alpha1.ResourceRule{APIVersion: "v1", Resource: "configmaps"},
		UpdateStrategy: &v1alpha1.DecoratorControllerAttachmentUpdateStrategy{Method: v1alpha1.ChildUpdateInPlace},
	}}
	for _, edit := range edits {
		edit(&dc.Spec)
	}
	return dc
}

func decoratorSpec(t *testing.T, edits ...decoratorEdit) *Spec {
	t.Helper()
	spec, problem := Compile(FromDecorator(decoratorWith(edits...)), served())
	if problem != nil {
		t.Fatal(*problem)
	}
	return spec
}

// on adds a rule for targets of a resource of example.com/v1.
func on(resource string, edit func(*v1alpha1.DecoratorControllerResourceRule)) decoratorEdit {
	return func(spec *v1alpha1.DecoratorControllerSpec) {
		rule := v1alpha1.DecoratorControllerResourceRule{ResourceRule: v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: resource}}
		if edit != nil {
			edit(&rule)
		}
		spec.Resources = append(spec.Resources, rule)
	}
}

// selecting replaces the rules by one for each label and annotation: "label=value" or "@annotation=value", several of one rule joined by commas.
func selecting(rules ...string) decoratorEdit {
	return func(spec *v1alpha1.DecoratorControllerSpec) {
		spec.Resources = nil
		for _, rule := range rules {
			on("things", func(r *v1alpha1.DecoratorControllerResourceRule) {
				for _, requirement := range strings.Split(rule, ",") {
					key, value, _ := strings.Cut(requirement, "=")
					if annotation, found := strings.CutPrefix(key, "@"); found {
						r.AnnotationSelector = &v1alpha1.AnnotationSelector{MatchAnnotations: map[string]string{annotation: value}}
					} else {
						r.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
					}
				}
			})(spec)
		}
	}
}

func TestTargetsAreSelected(t *testing.T) {
	const labelled, annotated = `"labels":{"a":"1"}`, `"annotations":{"b":"any text, http://x"}`
	both := labelled + "," + annotated
	for name, test := range map[string]struct {
		rules    []string
		metadata string
		want     bool
	}{
		"by a label":                            {[]string{"a=1"}, labelled, true},
		"not by another label":                  {[]string{"a=2"}, labelled, false},
		"by an annotation of any text":          {[]string{"@b=any text; http://x"}, strings.Replace(annotated, ",", ";", 1), true},
		"not by another annotation":             {[]string{"@b=x"}, annotated, false},
		"not without annotations":               {[]string{"@b=x"}, labelled, false},
		"by both":                               {[]string{"a=1,@b=x"}, strings.Replace(both, "any text, http://x", "x", 1), true},
		"not by one of both":                    {[]string{"a=1,@b=x"}, labelled, false},
		"by one of two rules":                   {[]string{"a=2", "a=1"}, labelled, true},
		"by neither of two rules":               {[]string{"a=2", "@b=x"}, both, false},
		"by the second rule, by its annotation": {[]string{"a=2", "@b=x"}, strings.Replace(both, "any text, http://x", "x", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := decoratorSpec(t, selecting(test.rules...))
			if got := spec.isParent(spec.parents[0], parentWith(test.metadata)); got != test.want {
				t.Errorf("it is a target: %t, want %t", got, test.want)
			}
			if len(spec.parents) != 1 {
				t.Errorf("rules of one type made %d types", len(spec.parents))
			}
		})
	}
}

func TestDecoratorProblems(t *testing.T) {
	for name, test := range map[string]struct {
		edit         decoratorEdit
		reason, text string
	}{
		"nothing":      {func(*v1alpha1.DecoratorControllerSpec) {}, "", ""},
		"no resources": {func(s *v1alpha1.DecoratorControllerSpec) { s.Resources = nil }, "InvalidSpec", "spec.resources: the list is empty"},
		"two versions": {on("things", func(r *v1alpha1.DecoratorControllerResourceRule) { r.APIVersion = "example.com/v2" }), "InvalidSpec", "spec.resources[1]: things.example.com is already listed in version v1"},
		"an unreadable annotation selector": {on("things", func(r *v1alpha1.DecoratorControllerResourceRule) {
			r.AnnotationSelector = &v1alpha1.AnnotationSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Likes"}}}
		}), "InvalidSpec", "spec.resources[1].annotationSelector"},
		"rolled attachments": {func(s *v1alpha1.DecoratorControllerSpec) {
			s.Attachments[0].UpdateStrategy.Method = v1alpha1.ChildUpdateRollingRecreate
		}, "InvalidSpec", "spec.attachments[0].updateStrategy.method: a DecoratorController does not roll its attachments: use Recreate"},
		"a target that is not served":      {on("others", nil), "TargetNotServed", "spec.resources[1]"},
		"a target without status":          {on("plains", nil), "", ""},
		"an attachment that is not served": {func(s *v1alpha1.DecoratorControllerSpec) { s.Attachments[0].Resource = "others" }, "AttachmentNotServed", "spec.attachments[0]"},
		"an attachment that no target owns": {func(s *v1alpha1.DecoratorControllerSpec) {
			s.Attachments[0].Resource = "namespaces"
		}, "InvalidSpec", "a namespaced target cannot own them"},
		"an attachment that one target owns": {func(s *v1alpha1.DecoratorControllerSpec) {
			s.Attachments[0].Resource = "namespaces"
			s.Resources = append(s.Resources, v1alpha1.DecoratorControllerResourceRule{ResourceRule: v1alpha1.ResourceRule{APIVersion: "v1", Resource: "namespaces"}})
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := Compile(FromDecorator(decoratorWith(test.edit)), served())
			if problem == nil {
				problem = &Problem{}
			}
			if problem.Reason != test.reason || !strings.Contains(problem.Message, test.text) {
				t.Errorf("got %+v, want %s with %q", *problem, test.reason, test.text)
			}
		})
	}
}

const attachment = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"att"},"data":{"k":"1"}}`

func TestTargetWrites(t *testing.T) {
	const decorated = `"labels":{"kept":"1","on":"yes"},"annotations":{"note":"x"}`
	for name, test := range map[string]struct {
		kind, metadata, answer string
		want                   []string
	}{
		"nothing desired":          {"Thing", decorated, `{}`, nil},
		"all as desired":           {"Thing", decorated, `{"labels":{"on":"yes","gone":null},"annotations":{"note":"x"}}`, nil},
		"a label":                  {"Thing", "", `{"labels":{"on":"yes"}}`, []string{"PATCH things/thing"}},
		"a label to be removed":    {"Thing", decorated, `{"labels":{"on":null}}`, []string{"PATCH things/thing"}},
		"an annotation":            {"Thing", decorated, `{"labels":{"on":"yes"},"annotations":{"note":"y"}}`, []string{"PATCH things/thing"}},
		"a status":                 {"Thing", "", `{"status":{"ready":1}}`, []string{"PATCH things/thing/status"}},
		"a status that is null":    {"Thing", "", `{"status":null}`, nil},
		"a label and a status":     {"Thing", "", `{"labels":{"on":"yes"},"status":{"ready":1}}`, []string{"PATCH things/thing", "PATCH things/thing/status"}},
		"both without subresource": {"Plain", "", `{"labels":{"on":"yes"},"status":{"ready":1}}`, []string{"PATCH plains/thing"}},
		"an attachment and a label": {
			"Thing", "", `{"labels":{"on":"yes"},"attachments":[` + attachment + `]}`, []string{"POST configmaps/att", "PATCH things/thing"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := strings.Replace(string(parentWith(test.metadata)), `"kind":"Thing"`, `"kind":"`+test.kind+`"`, 1)
			api := startFakeAPI(t, target)
			plural := strings.ToLower(test.kind) + "s"
			spec := decoratorSpec(t, func(s *v1alpha1.DecoratorControllerSpec) { s.Resources[0].Resource = plural })
			s := newSyncTestOf(t, api, spec)
			if err := s.answered(phaseSync, test.answer); err != nil {
				t.Fatal(err)
			}
			s.wantDid(test.want...)
			// What was written is as desired: the same answer leaves nothing to do.
			p, err := spec.decide(observed{
				parent: api.stored(plural + "/thing"), of: s.of.parentType, children: map[childKey]object{}, called: phaseSync,
				answer: answerOf(t, spec, s.parent, withoutAttachments(test.answer)), history: s.state.history, now: time.Now(),
			}, merge.Update)
			if err != nil || p.writesParent() {
				t.Errorf("the same answer writes %v and %v: %v", p.metadata, p.status, err)
			}
		})
	}
}

func withoutAttachments(answer string) string { return strings.Replace(answer, attachment, "", 1) }

// TestSharedStatusOfTarget: of the status of a Namespace only what the hook gives is sent.
func TestSharedStatusOfTarget(t *testing.T) {
	spec := decoratorSpec(t, func(s *v1alpha1.DecoratorControllerSpec) {
		s.Resources[0].ResourceRule = v1alpha1.ResourceRule{APIVersion: "v1", Resource: "namespaces"}
	})
	target := text(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns","uid":"parent","resourceVersion":"7"},"status":{"phase":"Active","load":{"a":1}}}`)
	p, err := spec.decide(observed{
		parent: target, of: spec.parents[0], children: map[childKey]object{}, called: phaseSync,
		answer: answerOf(t, spec, target, `{"status":{"load":{"b":2}}}`),
	}, merge.Update)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := patchOf(target, nil, p.status)
	if want := `{"metadata":{"resourceVersion":"7"},"status":{"load":{"b":2}}}`; err != nil || string(patch) != want {
		t.Errorf("the patch is %s, %v, want %s", patch, err, want)
	}
}

func TestTargetConflict(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTestOf(t, api, decoratorSpec(t))
	api.fails("PATCH things/thing", http.StatusConflict, "changed")
	err := s.answered(phaseSync, `{"labels":{"on":"yes"},"status":{"ready":1},"attachments":[`+attachment+`]}`)
	if !controller.IsRetriedQuietly(err) {
		t.Errorf("the error is %v, want a conflict, which is retried quietly", err)
	}
	s.wantDid("POST configmaps/att", "PATCH things/thing")
	made := api.stored("configmaps/att")
	if got := annotationOf(made, annotationDecorator); got != "dc" || made.ControllerUID() != "parent" {
		t.Errorf("the attachment has the annotation %q and the owner %q", got, made.ControllerUID())
	}
}

func TestClaimAttachments(t *testing.T) {
	with := func(decorator string) string {
		return fmt.Sprintf(`%s,"annotations":{"metacontroller.k8s.io/decorator-controller":%q}`, owned, decorator)
	}
	api := startFakeAPI(t, string(parentWith("")),
		childWith("ours", with("dc")), childWith("of-another", with("other")), childWith("plain", owned), childWith("orphan", orphaned))
	s := newSyncTestOf(t, api, decoratorSpec(t))
	if err := s.answered(phaseSync, `{"attachments":[]}`); err != nil {
		t.Fatal(err)
	}
	s.wantDid("DELETE configmaps/ours")
}

func TestLabelsThatDoNotLast(t *testing.T) {
	spec := decoratorSpec(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h, written, reported := history{}, 0, 0
	const hour = 3600
	for range hour {
		now = now.Add(time.Second)
		p, err := spec.decide(observed{
			parent: parentWith(""), of: spec.parents[0], called: phaseSync, history: h, now: now,
			answer: answerOf(t, spec, parentWith(""), `{"labels":{"on":"yes"}}`),
		}, merge.Update)
		if err != nil {
			t.Fatal(err)
		}
		h = p.history
		if p.metadata != nil {
			written++
			h.recordMetadataDone()
		}
		if p.metadataStuck {
			reported++
		}
	}
	if written < 3 || written > 100 || reported != 1 {
		t.Errorf("a label that another client removes each second was written %d times in an hour, and reported %d times", written, reported)
	}
}

func TestContentOf(t *testing.T) {
	base := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1","labels":{"a":"1"}},"data":{"k":"1"},"status":{"x":1}}`
	for name, test := range map[string]struct {
		before, after string
		differs       bool
	}{
		"status":           {`"x":1`, `"x":2`, false},
		"resourceVersion":  {`"resourceVersion":"1"`, `"resourceVersion":"2"`, false},
		"finalizers":       {`"name":"a"`, `"name":"a","finalizers":["x/y"]`, false},
		"the deletion":     {`"name":"a"`, `"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"`, true},
		"labels":           {`{"a":"1"}`, `{"a":"2"}`, true},
		"annotations":      {`"name":"a"`, `"name":"a","annotations":{"a":"1"}`, true},
		"data":             {`{"k":"1"}`, `{"k":"2"}`, true},
		"another field":    {`"kind"`, `"immutable":true,"kind"`, true},
		"label that moves": {`"labels":{"a":"1"}`, `"annotations":{"a":"1"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := contentOf(text(base))
			if err != nil {
				t.Fatal(err)
			}
			after, err := contentOf(text(strings.Replace(base, test.before, test.after, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if (before != after) != test.differs {
				t.Errorf("it differs: %t, want %t", before != after, test.differs)
			}
		})
	}
}

// FuzzStatusPatch compares with a library: the patch makes the desired status of the observed one.
func FuzzStatusPatch(f *testing.F) {
	for _, seed := range [][2]string{{`{}`, `{"a":1}`}, {`{"a":{"b":1,"c":[1,2]}}`, `{"a":{"c":[2]},"d":"x"}`}, {`{"a":1}`, `{"a":{"b":2}}`}, {`{"a":{"b":2}}`, `{"a":null}`}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, observed, wanted string) {
		var was, is map[string]any
		if utiljson.Unmarshal([]byte(observed), &was) != nil || utiljson.Unmarshal([]byte(wanted), &is) != nil || was == nil || is == nil {
			return
		}
		was, is = withoutNulls(was).(map[string]any), withoutNulls(is).(map[string]any)
		if hasNull(was) || hasNull(is) {
			return // in a list, where a merge patch keeps it
		}
		patch, err := json.Marshal(mergePatch(was, is))
		if err != nil {
			t.Fatal(err)
		}
		before, err := json.Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		after, err := jsonpatch.MergePatch(before, patch)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := utiljson.Unmarshal(after, &got); err != nil {
			t.Fatal(err)
		}
		if merge.HashTree(got) != merge.HashTree(is) {
			t.Errorf("%s patched with %s is %s, want %s (%s)", before, patch, after, wanted, cmp.Diff(is, got))
		}
	})
}

func hasNull(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasNull)
	case []any:
		return slices.ContainsFunc(v, hasNull)
	}
	return false
}

func TestDecoratorRequest(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")))
	s := newSyncTestOf(t, api, decoratorSpec(t))
	shown := `{"kind":"DecoratorController"}`
	s.controllerJSON.Store(&shown)
	s.called = phaseFinalize
	children, err := s.gather(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var body strings.Builder
	view := &view{parent: s.parent, related: related.Selection{Groups: []hook.Group{{APIVersion: "v1", Kind: "Secret"}}}}
	if _, err := s.request(hook.V1, children, view).WriteTo(&body); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"controller":%s,"object":%s,"attachments":{"ConfigMap.v1":{}},"related":{"Secret.v1":{}},"finalizing":true}`, shown, s.parent.JSON())
	if body.String() != want {
		t.Errorf("got  %s\nwant %s", body.String(), want)
	}
}

func TestAttachmentWithoutAnnotation(t *testing.T) {
	api := startFakeAPI(t, string(parentWith("")), childWith("att", owned))
	s := newSyncTestOf(t, api, decoratorSpec(t))
	if err := s.answered(phaseSync, `{"attachments":[`+attachment+`]}`); err != nil {
		t.Fatal(err)
	}
	s.wantDid("POST configmaps/att", "GET configmaps/att")
	s.wantEvents("ErrResourceExists")
}

func TestRelatedProblem(t *testing.T) {
	objects := &relatedError{errors.New("connection refused")}
	if problem := objects.problem(); problem != nil {
		t.Errorf("nothing can be done about an interruption, got %+v", problem)
	}
	for namespace, byClusterRole := range map[string]bool{"": true, "ns": false} {
		missing := errors.Join(&objectcache.ForbiddenError{Namespace: namespace}, apierrors.NewForbidden(schema.GroupResource{}, "", nil))
		problem := (&relatedError{missing}).problem()
		if problem == nil || problem.Reason != v1alpha1.ReasonForbidden || strings.Contains(problem.Message, aggregationLabel) != byClusterRole {
			t.Errorf("a right in the namespace %q: got %+v, want the label of ClusterRoles in it: %t", namespace, problem, byClusterRole)
		}
	}
}
