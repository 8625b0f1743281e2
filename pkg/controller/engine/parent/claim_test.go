// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// candidate is a ConfigMap with the fields that claiming reads.
func candidate(name, namespace, owner, app, more string) text {
	metadata := []string{fmt.Sprintf(`"uid":%q`, name)}
	if owner != "" {
		metadata = append(metadata, fmt.Sprintf(`"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":%q,"controller":true}]`, owner))
	}
	if more != "" {
		metadata = append(metadata, more)
	}
	metadata = append(metadata, fmt.Sprintf(`"name":%q,"namespace":%q,"labels":{"app":%q}`, name, namespace, app))
	return text(`{"metadata":{` + strings.Join(metadata, ",") + `}}`)
}

// attached is in the metadata of an attachment.
const attached = `"annotations":{"metacontroller.k8s.io/decorator-controller":"dc"}`

// ownedByX is in the metadata of a parent with an owner.
const ownedByX = `"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"x"}]`

func names(objects []object) (names []string) {
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}

// noParent is for children of another type than that of the parents.
func noParent(object) bool { return false }

// TestParentsAreNotAdopted: parents and children are of one type, and parents have labels that selectors of other parents match.
func TestParentsAreNotAdopted(t *testing.T) {
	adoptAny := func(s *v1alpha1.CompositeControllerSpec) { s.Adoption = v1alpha1.AdoptAny }
	for _, edits := range [][]edit{nil, {adoptAny}} {
		spec := specWith(t, edits...)
		parent := parentWith("")
		selector, err := spec.selectorOf(parent)
		if err != nil {
			t.Fatal(err)
		}
		orphan := []object{candidate("a", "ns", "", "a", "")}
		c := spec.claim(parent, selector, nil, orphan, func(object) bool { return true })
		if len(c.adopt) > 0 || len(c.peers) != 1 {
			t.Errorf("adopted is %v, not adopted %v", c.adopt, c.peers)
		}
		problem := adoptionRefused(parent, selector, configMaps, c)
		if problem == nil || !strings.Contains(problem.Message, "parents themselves, such as ns/a") {
			t.Errorf("the problem is %+v", problem)
		}
	}
}

func TestOwnershipOf(t *testing.T) {
	for name, test := range map[string]struct {
		parent                    string // more of its metadata
		candidate                 text
		children, adopt, released bool
	}{
		"owned and selected":                        {"", candidate("a", "ns", "parent", "a", ""), true, false, false},
		"owned and selected, of a deleted parent":   {deleting, candidate("a", "ns", "parent", "a", ""), true, false, false},
		"owned and not selected":                    {"", candidate("a", "ns", "parent", "b", ""), false, false, true},
		"owned and not selected, parent is deleted": {deleting, candidate("a", "ns", "parent", "b", ""), false, false, false},
		"an attachment, and selected":               {"", candidate("a", "ns", "parent", "a", attached), false, false, false},
		"an attachment, and not selected":           {"", candidate("a", "ns", "parent", "b", attached), false, false, false},
		"another's":                                 {"", candidate("a", "ns", "other", "a", ""), false, false, false},
		"an orphan that is selected":                {"", candidate("a", "ns", "", "a", ""), false, true, false},
		"an orphan, and not selected":               {"", candidate("a", "ns", "", "b", ""), false, false, false},
		"an orphan of a parent being deleted":       {deleting, candidate("a", "ns", "", "a", ""), false, false, false},
		"an orphan that is being deleted":           {"", candidate("a", "ns", "", "a", deleting), false, false, false},
		"an orphan, in another namespace":           {"", candidate("a", "other", "", "a", ""), false, false, false},
		"an attachment that is an orphan":           {"", candidate("a", "ns", "", "a", attached), false, false, false},
		"the parent itself":                         {"", candidate("a", "ns", "", "a", `"uid":"parent"`), false, false, false},
		"the parent itself, its own owner":          {"", candidate("a", "ns", "parent", "a", `"uid":"parent"`), false, false, false},
		"an owner of the parent":                    {ownedByX, candidate("a", "ns", "", "a", `"uid":"x"`), false, false, false},
		"an orphan that owns nothing":               {ownedByX, candidate("a", "ns", "", "a", `"uid":"y"`), false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			parent := parentWith(test.parent)
			spec := specWith(t)
			selector, err := spec.selectorOf(parent)
			if err != nil {
				t.Fatal(err)
			}
			both := []object{test.candidate}
			c := spec.claim(parent, selector, both, both, noParent)
			got := []bool{len(c.children) > 0, len(c.adopt) > 0, len(c.release) > 0}
			if diff := cmp.Diff([]bool{test.children, test.adopt, test.released}, got); diff != "" {
				t.Errorf("child, to be adopted, to be released (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAdoptionNeedsValue: a selector that demands no value of a label may match all that there is.
func TestAdoptionNeedsValue(t *testing.T) {
	adoptAny := func(s *v1alpha1.CompositeControllerSpec) { s.Adoption = v1alpha1.AdoptAny }
	for name, test := range map[string]struct {
		edits    []edit
		selector string
		adopted  bool
	}{
		"expressions":              {nil, `{"matchExpressions":[{"key":"b","operator":"DoesNotExist"}]}`, false},
		"any value of a label":     {nil, `{"matchExpressions":[{"key":"app","operator":"Exists"}]}`, false},
		"one of some values":       {nil, `{"matchExpressions":[{"key":"app","operator":"In","values":["a","b"]}]}`, true},
		"expressions, all adopted": {[]edit{adoptAny}, `{"matchExpressions":[{"key":"b","operator":"DoesNotExist"}]}`, true},
		"labels and expressions":   {nil, `{"matchLabels":{"app":"a"},"matchExpressions":[{"key":"b","operator":"DoesNotExist"}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specWith(t, test.edits...)
			parent := text(`{"metadata":{"name":"thing","namespace":"ns","uid":"parent"},"spec":{"selector":` + test.selector + `}}`)
			selector, err := spec.selectorOf(parent)
			if err != nil {
				t.Fatal(err)
			}
			c := spec.claim(parent, selector, nil, []object{candidate("a", "ns", "", "a", "")}, noParent)
			if adopted, refused := len(c.adopt) == 1, len(c.refused) == 1; adopted != test.adopted || refused == test.adopted {
				t.Errorf("adopted: %t, refused: %t", adopted, refused)
			}
		})
	}
}

// TestCopiedAnnotation: a hook copies the annotations of its parent, which is an attachment, to a child. The child is the parent's.
func TestCopiedAnnotation(t *testing.T) {
	spec := specWith(t)
	parent := parentWith("")
	child := wants(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"app":"a"},"annotations":{"metacontroller.k8s.io/decorator-controller":"dc","b":"c"}}}`)
	desired, err := spec.desiredTree(parent, &answerOf(t, spec, parent, child).Children[0])
	if err != nil {
		t.Fatal(err)
	}
	annotations := desired["metadata"].(map[string]any)["annotations"]
	if diff := cmp.Diff(map[string]any{"b": "c"}, annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	// Children that were made with it are found by their generated label.
	generated := specWith(t, func(s *v1alpha1.CompositeControllerSpec) { s.GenerateSelector = ptr(true) })
	selector, err := generated.selectorOf(parent)
	if err != nil {
		t.Fatal(err)
	}
	made := text(`{"metadata":{"name":"c","namespace":"ns","uid":"c","labels":{"controller-uid":"parent"},` + attached +
		`,"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"parent","controller":true}]}}`)
	if c := generated.claim(parent, selector, []object{made}, nil, noParent); len(c.children) != 1 {
		t.Errorf("claimed %+v", c)
	}
}

func TestClaimIgnoresOrder(t *testing.T) {
	all := []object{
		candidate("a", "ns", "parent", "a", ""), candidate("b", "ns", "", "a", ""), candidate("c", "ns", "parent", "b", ""),
		candidate("d", "ns", "other", "a", ""), candidate("e", "ns", "", "a", ""),
	}
	parent := parentWith("")
	spec := specWith(t)
	selector, err := spec.selectorOf(parent)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	permutations(all, func(order []object) {
		seen++
		c := spec.claim(parent, selector, order, order, noParent)
		got := [][]string{names(c.children), names(c.adopt), names(c.release)}
		if diff := cmp.Diff([][]string{{"a"}, {"b", "e"}, {"c"}}, got); diff != "" {
			t.Fatalf("observed as %v (-want +got):\n%s", names(order), diff)
		}
	})
	if seen != 120 {
		t.Errorf("%d orders were tried, want 120", seen)
	}
}

func permutations(list []object, visit func([]object)) {
	var swap func(n int)
	swap = func(n int) {
		if n == len(list) {
			visit(list)
			return
		}
		for i := n; i < len(list); i++ {
			list[n], list[i] = list[i], list[n]
			swap(n + 1)
			list[n], list[i] = list[i], list[n]
		}
	}
	swap(0)
}

func TestSelectorOf(t *testing.T) {
	generated := func(s *v1alpha1.CompositeControllerSpec) { s.GenerateSelector = ptr(true) }
	for name, test := range map[string]struct {
		edits      []edit
		spec       string
		want, text string
	}{
		"the parent's own selector":              {nil, `{"selector":{"matchLabels":{"app":"a"}}}`, "app=a", ""},
		"its UID, whatever its selector":         {[]edit{generated}, `{"selector":"?"}`, "controller-uid=parent", ""},
		"none is an error":                       {nil, `{}`, "", "generateSelector"},
		"an empty one is an error":               {nil, `{"selector":{}}`, "", "generateSelector"},
		"a Service's, which is another notation": {nil, `{"selector":{"app":"a"}}`, "", "generateSelector"},
		"one of another type is an error":        {nil, `{"selector":"app"}`, "", "spec.selector"},
		"one with an unknown operator":           {nil, `{"selector":{"matchExpressions":[{"key":"a","operator":"Likes"}]}}`, "", "spec.selector"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := text(`{"metadata":{"name":"thing","uid":"parent"},"spec":` + test.spec + `}`)
			selector, err := specWith(t, test.edits...).selectorOf(parent)
			switch {
			case test.text != "" && (err == nil || !strings.Contains(err.Error(), test.text)):
				t.Errorf("the error is %v, and must speak of %s", err, test.text)
			case test.text == "" && err != nil:
				t.Error(err)
			case test.text == "" && selector.String() != test.want:
				t.Errorf("got %s, want %s", selector, test.want)
			}
		})
	}
}
