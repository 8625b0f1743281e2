// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package samplehook

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/hook"
)

// call is a call of a hook, with objects in YAML.
type call struct {
	path string
	// parent is the parent or target. Its controller is of this kind.
	parent, controller string
	// children are the children or attachments.
	children, related []group
	finalizing        bool
}

// group are objects of one type. The type is in the request even if there are none.
type group struct {
	apiVersion, kind string
	objects          []string
}

// some returns a group with these objects.
func some(apiVersion, kind string, objects ...string) group { return group{apiVersion, kind, objects} }

// toJSON returns YAML as JSON.
func toJSON(t testing.TB, text string) []byte {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return body
}

func decoded(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// groups returns the groups as the engine puts them into a request.
func groups(t testing.TB, of []group) (result []hook.Group) {
	t.Helper()
	for _, g := range of {
		converted := hook.Group{APIVersion: g.apiVersion, Kind: g.kind}
		for _, text := range g.objects {
			o := decoded(t, text)
			o.SetAPIVersion(g.apiVersion)
			o.SetKind(g.kind)
			body, err := o.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			converted.Objects = append(converted.Objects, hook.Object{Namespace: o.GetNamespace(), Name: o.GetName(), JSON: string(body)})
		}
		result = append(result, converted)
	}
	return result
}

// request returns the body that the engine sends.
func (c call) request(t testing.TB, version hook.Version) []byte {
	t.Helper()
	parent, namespace := string(toJSON(t, c.parent)), decoded(t, c.parent).GetNamespace()
	controller := `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"` + c.controller + `","metadata":{"name":"sample"},"status":{}}`
	children, related := groups(t, c.children), groups(t, c.related)
	var request *hook.Request
	switch {
	case c.path == "/customize":
		request = hook.NewCustomizeRequest(hook.CustomizeRequest{Controller: controller, Parent: parent})
	case c.controller == "DecoratorController":
		request = hook.NewDecoratorRequest(version, hook.DecoratorRequest{Controller: controller, Object: parent, ObjectNamespace: namespace,
			Attachments: children, Related: related, Finalizing: c.finalizing})
	default:
		request = hook.NewCompositeRequest(version, hook.CompositeRequest{Controller: controller, Parent: parent, ParentNamespace: namespace,
			Children: children, Related: related, Finalizing: c.finalizing})
	}
	var body bytes.Buffer
	if _, err := request.WriteTo(&body); err != nil {
		t.Fatal(err)
	}
	return body.Bytes()
}

// send sends a request, and returns the answer.
func send(t testing.TB, address, path string, body []byte) (code int, answer []byte) {
	t.Helper()
	response, err := http.Post("http://"+address+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// accept checks that the engine accepts an answer, without warnings.
func (c call) accept(t testing.TB, answer []byte) {
	t.Helper()
	rules := hook.Rules{Phase: strings.TrimPrefix(c.path, "/"), Version: hook.V2, Strict: true, ParentNamespace: decoded(t, c.parent).GetNamespace()}
	for _, g := range c.children {
		rules.Types = append(rules.Types, hook.Type{APIVersion: g.apiVersion, Kind: g.kind, Namespaced: true})
	}
	var warnings []string
	var err error
	switch {
	case c.path == "/customize":
		var r *hook.CustomizeResponse
		if r, err = hook.DecodeCustomize(answer, rules); err == nil {
			warnings = r.Warnings
		}
	case c.controller == "DecoratorController":
		var r *hook.DecoratorResponse
		if r, err = hook.DecodeDecorator(answer, rules); err == nil {
			warnings = r.Warnings
		}
	default:
		var r *hook.CompositeResponse
		if r, err = hook.DecodeComposite(answer, rules); err == nil {
			warnings = r.Warnings
		}
	}
	if err != nil || len(warnings) > 0 {
		t.Errorf("the engine refuses the answer %s: %v %v", answer, err, warnings)
	}
}
