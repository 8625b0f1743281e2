// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/testing/jsoncorpus"
)

func TestRulesThatAreRefusedNameTheirField(t *testing.T) {
	const labelled = `"labelSelector":{"matchLabels":{"a":"b"}}`
	for name, test := range map[string]struct {
		rule   string
		bounds Bounds
		reason hook.Reason
		want   string
	}{
		"names with labels": {
			`{"apiVersion":"v1","resource":"secrets","names":["a"],` + labelled + `}`, clusterParent,
			hook.ReasonInvalidRelated, "relatedResources[1].names: excludes labelSelector",
		},
		"names with all labels": {
			`{"apiVersion":"v1","resource":"secrets","names":["a"],"labelSelector":{}}`, v2Parent,
			hook.ReasonInvalidRelated, "relatedResources[1].names: excludes labelSelector",
		},
		"names with namespaces": {
			`{"apiVersion":"v1","resource":"secrets","names":["a"],"namespaceSelector":{}}`, v2Parent,
			hook.ReasonInvalidRelated, "relatedResources[1].names: excludes namespaceSelector",
		},
		"two ways to name namespaces": {
			`{"apiVersion":"v1","resource":"secrets","namespace":"a","namespaceSelector":{}}`, v2Parent,
			hook.ReasonInvalidRelated, "relatedResources[1].namespace: excludes namespaceSelector",
		},
		"namespaces with v1": {
			`{"apiVersion":"v1","resource":"secrets","namespaceSelector":{}}`, v1Parent,
			hook.ReasonInvalidRelated, "relatedResources[1].namespaceSelector: a customize hook of version v1",
		},
		"foreign namespace with v1": {
			`{"apiVersion":"v1","resource":"secrets","namespace":"other"}`, v1Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].namespace: is "other"`,
		},
		"namespace of another engine": {
			`{"apiVersion":"v1","resource":"secrets","namespace":"other"}`, Bounds{Version: hook.V2, EngineNamespace: "mine"},
			hook.ReasonInvalidRelated, `the controllers read the namespace "mine" alone`,
		},
		"unknown operator": {
			`{"apiVersion":"v1","resource":"secrets","labelSelector":{"matchExpressions":[{"key":"a","operator":"Is"}]}}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].labelSelector: is no label selector: "Is"`,
		},
		"value that no label can have": {
			`{"apiVersion":"v1","resource":"secrets","namespaceSelector":{"matchLabels":{"a":"b c"}}}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].namespaceSelector: is no label selector`,
		},
		"no apiVersion": {
			`{"resource":"secrets"}`, v2Parent,
			hook.ReasonInvalidRelated, "relatedResources[1].apiVersion: is missing",
		},
		"no resource": {
			`{"apiVersion":"v1"}`, v2Parent,
			hook.ReasonInvalidRelated, "relatedResources[1].resource: is missing",
		},
		"kind as resource": {
			`{"apiVersion":"v1","resource":"Secret"}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].resource: is "Secret"`,
		},
		"subresource": {
			`{"apiVersion":"v1","resource":"pods/log"}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].resource: is "pods/log"`,
		},
		"path as resource": {
			`{"apiVersion":"v1","resource":".."}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].resource: is ".."`,
		},
		"path as group": {
			`{"apiVersion":"../v1","resource":"secrets"}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].apiVersion: is "../v1"`,
		},
		"path as version": {
			`{"apiVersion":"apps/..","resource":"secrets"}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].apiVersion: is "apps/.."`,
		},
		"two slashes": {
			`{"apiVersion":"a/b/c","resource":"secrets"}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].apiVersion: is "a/b/c"`,
		},
		"path as namespace": {
			`{"apiVersion":"v1","resource":"secrets","namespace":"../x"}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].namespace: is "../x"`,
		},
		"path as name": {
			`{"apiVersion":"v1","resource":"secrets","names":["a","b/c"]}`, v2Parent,
			hook.ReasonInvalidRelated, `relatedResources[1].names[1]: is "b/c"`,
		},
		"names as text": {
			`{"apiVersion":"v1","resource":"secrets","names":"a"}`, v1Parent,
			hook.ReasonInvalidResponse, "relatedResources[1].names: is a string, and must be a list",
		},
		"number as name": {
			`{"apiVersion":"v1","resource":"secrets","names":[1]}`, v1Parent,
			hook.ReasonInvalidResponse, "relatedResources[1].names: is a number, and must be a string",
		},
		"selector as text": {
			`{"apiVersion":"v1","resource":"secrets","labelSelector":"a=b"}`, v1Parent,
			hook.ReasonInvalidResponse, "relatedResources[1].labelSelector: is a string, and must be an object",
		},
		"label that is a boolean": {
			`{"apiVersion":"v1","resource":"secrets","labelSelector":{"matchLabels":{"a":true}}}`, v1Parent,
			hook.ReasonInvalidResponse, "relatedResources[1].labelSelector.matchLabels: is a boolean, and must be a string",
		},
		"rule as list": {
			`[]`, v1Parent,
			hook.ReasonInvalidResponse, "relatedResources[1]: is a list, and must be an object",
		},
		"unknown field, strict": {
			`{"apiVersion":"v1","resource":"secrets","label":{}}`, v2Parent,
			hook.ReasonUnknownField, `mode: strict): unknown field "relatedResources[1].label"`,
		},
		"wrong capitals, strict": {
			`{"apiVersion":"v1","resource":"secrets","labelselector":{}}`, v2Parent,
			hook.ReasonUnknownField, `unknown field "relatedResources[1].labelselector"`,
		},
		"unknown field within, strict": {
			`{"apiVersion":"v1","resource":"secrets","labelSelector":{"matchlabels":{}}}`, v2Parent,
			hook.ReasonUnknownField, `unknown field "relatedResources[1].labelSelector.matchlabels"`,
		},
		"namespace of a Node": {
			`{"apiVersion":"v1","resource":"nodes","namespace":"own"}`, v1Parent,
			hook.ReasonInvalidRelated, "relatedResources[1].namespace: nodes are cluster-scoped",
		},
		"namespaces of a Node": {
			`{"apiVersion":"v1","resource":"nodes","namespaceSelector":{}}`, clusterParent,
			hook.ReasonInvalidRelated, "relatedResources[1].namespaceSelector: nodes are cluster-scoped",
		},
		"a Node that no hook sees": {
			`{"apiVersion":"v1","resource":"nodes","names":["n"]}`, Bounds{Version: hook.V2, Receiver: hook.V1, ParentNamespace: "own"},
			hook.ReasonInvalidRelated, "relatedResources[1].resource: nodes are cluster-scoped, and a sync or finalize hook of version v1 does not see them for a namespaced parent: set version v2",
		},
		"another namespace that no hook sees": {
			`{"apiVersion":"v1","resource":"secrets","namespace":"x"}`, Bounds{Version: hook.V2, Receiver: hook.V1, ParentNamespace: "own"},
			hook.ReasonInvalidRelated, `relatedResources[1].namespace: is "x", and a sync or finalize hook of version v1 sees objects of a namespaced parent's own namespace alone`,
		},
		"resource that is not served": {
			`{"apiVersion":"v1","resource":"secret"}`, v1Parent,
			hook.ReasonRelatedNotServed, "relatedResources[1].resource: the API server does not serve secret in version v1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := parse([]string{`{"apiVersion":"v1","resource":"configmaps"}`, test.rule}, test.bounds)
			if err == nil {
				_, err = answer.Resolve(served)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || hook.ReasonOf(err) != test.reason {
				t.Errorf("error of reason %q: %v\nwant reason %q: %s", hook.ReasonOf(err), err, test.reason, test.want)
			}
		})
	}
}

// What rules select is in extents: that they need, and that is what they are.
func TestRulesNeedWatchesAsNarrowAsTheyAre(t *testing.T) {
	for name, test := range map[string]struct {
		rules  []string
		bounds Bounds
		want   []string
	}{
		"none":                     {nil, v1Parent, nil},
		"all of a resource":        {[]string{`{"apiVersion":"v1","resource":"secrets"}`}, clusterParent, []string{"secrets"}},
		"empty names are no names": {[]string{`{"apiVersion":"v1","resource":"secrets","names":[]}`}, clusterParent, []string{"secrets"}},
		"null is as good as missing": {
			[]string{`{"apiVersion":"v1","resource":"secrets","names":null,"labelSelector":null,"namespace":null,"namespaceSelector":null}`},
			clusterParent, []string{"secrets"},
		},
		"all of the own namespace": {[]string{`{"apiVersion":"v1","resource":"secrets"}`}, v1Parent, []string{"secrets own/"}},
		"own namespace named":      {[]string{`{"apiVersion":"v1","resource":"secrets","namespace":"own"}`}, v1Parent, []string{"secrets own/"}},
		"v2 selects everywhere":    {[]string{`{"apiVersion":"v1","resource":"secrets"}`}, v2Parent, []string{"secrets"}},
		"v2 in another namespace": {
			[]string{`{"apiVersion":"v1","resource":"secrets","namespace":"other"}`},
			v2Parent, []string{"secrets other/"},
		},
		"one engine, one namespace": {
			[]string{`{"apiVersion":"v1","resource":"secrets"}`},
			Bounds{Version: hook.V2, EngineNamespace: "mine"}, []string{"secrets mine/"},
		},
		"names": {
			[]string{`{"apiVersion":"v1","resource":"secrets","names":["b","a","b"]}`},
			v1Parent, []string{"secrets own/a", "secrets own/b"},
		},
		"names in all namespaces": {[]string{`{"apiVersion":"v1","resource":"secrets","names":["a"]}`}, v2Parent, []string{"secrets /a"}},
		"a name that is empty":    {[]string{`{"apiVersion":"v1","resource":"secrets","names":[""]}`}, v2Parent, nil},
		"labels": {
			[]string{`{"apiVersion":"v1","resource":"secrets","labelSelector":{"matchLabels":{"a":"b"}}}`},
			v1Parent, []string{"secrets own/ a=b"},
		},
		"labels in a namespace": {
			[]string{`{"apiVersion":"v1","resource":"secrets","namespace":"x","labelSelector":{"matchLabels":{"a":"b"}}}`},
			v2Parent, []string{"secrets x/ a=b"},
		},
		"empty labels are all": {[]string{`{"apiVersion":"v1","resource":"secrets","labelSelector":{}}`}, clusterParent, []string{"secrets"}},
		"namespaces by label": {
			[]string{`{"apiVersion":"v1","resource":"secrets","namespaceSelector":{"matchLabels":{"a":"b"}}}`},
			v2Parent, []string{"namespaces", "secrets"},
		},
		"namespaces by label, one engine": {
			[]string{`{"apiVersion":"v1","resource":"secrets","namespaceSelector":{"matchLabels":{"a":"b"}}}`},
			Bounds{Version: hook.V2, EngineNamespace: "mine"}, []string{"namespaces /mine", "secrets mine/"},
		},
		"all namespaces":     {[]string{`{"apiVersion":"v1","resource":"secrets","namespaceSelector":{}}`}, v2Parent, []string{"secrets"}},
		"cluster-scoped, v1": {[]string{`{"apiVersion":"v1","resource":"nodes","names":["n"]}`}, v1Parent, []string{"nodes /n"}},
		"cluster-scoped, seen by a hook": {
			[]string{`{"apiVersion":"v1","resource":"nodes"}`},
			Bounds{Version: hook.V1, Receiver: hook.V2, ParentNamespace: "own"}, []string{"nodes"},
		},
		"cluster-scoped parent, v1": {
			[]string{`{"apiVersion":"v1","resource":"nodes"}`, `{"apiVersion":"v1","resource":"secrets","namespace":"x"}`},
			Bounds{Version: hook.V1, Receiver: hook.V1}, []string{"nodes", "secrets x/"},
		},
		"cluster-scoped, one engine": {
			[]string{`{"apiVersion":"v1","resource":"nodes"}`},
			Bounds{Version: hook.V2, EngineNamespace: "mine"}, []string{"nodes"},
		},
		"two rules for one resource": {
			[]string{`{"apiVersion":"v1","resource":"secrets","names":["a"]}`, `{"apiVersion":"v1","resource":"secrets","names":["c"]}`},
			v1Parent, []string{"secrets own/a", "secrets own/c"},
		},
		"one rule twice": {
			[]string{`{"apiVersion":"v1","resource":"nodes"}`, `{"apiVersion":"v1","resource":"nodes"}`},
			v1Parent, []string{"nodes"},
		},
		"unknown fields are ignored if v1": {[]string{`{"apiVersion":"v1","resource":"nodes","x":1}`}, v1Parent, []string{"nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			rules := compile(t, test.bounds, test.rules...)
			var got []string
			for _, s := range rules.scopes {
				got = append(got, s.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestToleratedMistakesAreWarnings(t *testing.T) {
	answer, err := parse([]string{`{"apiVersion":"v1","resource":"secrets","names":["",null],"labels":1}`}, v1Parent)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"relatedResources[0].names[0]: is empty, so that it selects nothing", "relatedResources[0].names[1]: is empty, so that it selects nothing",
		`unknown field "relatedResources[0].labels"`}
	if diff := cmp.Diff(want, answer.Warnings); diff != "" {
		t.Error(diff)
	}
	var many []string
	for range 100 {
		many = append(many, `{"apiVersion":"v1","resource":"secrets","x":1}`)
	}
	if answer, err = parse(many, v1Parent); err != nil || len(answer.Warnings) != maxWarnings {
		t.Errorf("%d warnings, error %v", len(answer.Warnings), err)
	}
}

func TestResourcesAreThoseOfTheRules(t *testing.T) {
	answer, err := parse([]string{
		`{"apiVersion":"apps/v1","resource":"deployments"}`, `{"apiVersion":"v1","resource":"secrets"}`,
		`{"apiVersion":"apps/v1","resource":"deployments","names":["a"]}`,
	}, v1Parent)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]schema.GroupVersionResource{secrets, deployments}, answer.Resources()); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse finds texts that panic, errors without a reason or too long for an event, and rules that break what they were judged by.
func FuzzParse(f *testing.F) {
	for _, seed := range jsoncorpus.Valid {
		f.Add(seed, "own", true)
		f.Add(`{"apiVersion":"v1","resource":"secrets","names":`+seed+`}`, "own", false)
		f.Add(`{"apiVersion":"v1","resource":"secrets","labelSelector":`+seed+`}`, "", true)
	}
	f.Add(`{"apiVersion":"apps/v1","resource":"deployments","namespace":"a","labelSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}}`, "", true)
	f.Add(`{"apiVersion":"v1","resource":"secrets","namespaceSelector":{"matchLabels":{"a":"b"}},"names":[]}`, "", false)
	f.Fuzz(func(t *testing.T, text, namespace string, v2 bool) {
		bounds := Bounds{Version: hook.V1, ParentNamespace: namespace}
		if v2 {
			bounds.Version, bounds.Strict = hook.V2, true
		}
		answer, err := parse([]string{text}, bounds)
		if err == nil {
			all := map[schema.GroupVersionResource]Resource{}
			for _, resource := range answer.Resources() {
				all[resource] = Resource{Kind: "Thing", Namespaced: true}
			}
			var rules *Rules
			if rules, err = answer.Resolve(all); err == nil {
				checkRules(t, rules, bounds)
				return
			}
		}
		if hook.ReasonOf(err) == "" || len(err.Error()) > 1000 {
			t.Errorf("error of %d bytes, reason %q: %v", len(err.Error()), hook.ReasonOf(err), err)
		}
	})
}

func checkRules(t *testing.T, rules *Rules, bounds Bounds) {
	for _, s := range rules.scopes {
		if bounds.Version == hook.V1 && bounds.ParentNamespace != "" && s.namespace != bounds.ParentNamespace {
			t.Errorf("a parent in %q sees %s with v1", bounds.ParentNamespace, s.String())
		}
		resource := s.resource.Group + s.resource.Version + s.resource.Resource
		if strings.Contains(resource, "/") || s.namespace != bounds.ParentNamespace && strings.ContainsAny(s.namespace, "/.") {
			t.Errorf("%s would become another URL", s.String())
		}
	}
}
