// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Type is a type of children that a controller declares.
type Type struct {
	APIVersion, Kind string
	Namespaced       bool
}

// Label is one label.
type Label struct{ Key, Value string }

// Labels are sorted by key. A selector can be asked whether it matches them.
type Labels []Label

var _ labels.Labels = Labels(nil)

// Lookup returns the value of the label.
func (l Labels) Lookup(key string) (string, bool) {
	i, found := slices.BinarySearchFunc(l, key, func(label Label, key string) int { return cmp.Compare(label.Key, key) })
	if !found {
		return "", false
	}
	return l[i].Value, true
}

// Has reports whether the label exists.
func (l Labels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get returns the value of the label, "" where there is none.
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Child is an object that a hook desires.
type Child struct {
	APIVersion, Kind string
	// Namespace is the parent's if the hook sets none, and empty for a cluster-scoped type, whatever the hook sets. So it may differ
	// from JSON.
	Namespace, Name string
	Labels          Labels
	// JSON is the child as it is in the answer.
	JSON []byte
}

// String names the child in errors.
func (c *Child) String() string {
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	return strings.TrimSpace(c.Kind + " " + name)
}

// children takes the list of children, or null for an empty one.
func (d *decoder) children() ([]Child, error) {
	d.recalled, d.learned = false, Known{}
	if d.null() {
		return nil, nil
	}
	if d.Space() != '[' {
		return nil, d.wrong("a list of objects")
	}
	known := d.rules.Known
	if known != nil {
		var children []Child
		if children, d.recalled = known.recall(d.Text[d.Pos:]); d.recalled {
			d.Pos += known.size
			return children, nil
		}
	}
	begin := d.Pos
	children := make([]Child, 0, 8)
	var from []int
	err := d.array(func() error {
		if d.Space(); known != nil {
			from = append(from, d.Pos-begin)
		}
		child, err := d.child()
		if err == nil {
			children = append(children, child)
		}
		return err
	})
	if err == nil {
		err = checkDuplicates(children)
	}
	if err != nil {
		return nil, err
	}
	if known != nil {
		d.learned = knownOf(d.Text[begin:d.Pos], children, from)
	}
	return children, nil
}

// child takes one child.
func (d *decoder) child() (Child, error) {
	if d.null() {
		return Child{}, &fault{reason: ReasonInvalidChild, text: "is null, and must be an object"}
	}
	if d.Space() != '{' {
		return Child{}, d.wrong("an object")
	}
	from := d.Pos
	var child Child
	err := d.object(func(key []byte) (err error) {
		switch string(key) {
		case "apiVersion":
			child.APIVersion, err = d.text(func(text []byte) string { return d.interned(text, apiVersionOf) })
		case "kind":
			child.Kind, err = d.text(func(text []byte) string { return d.interned(text, kindOf) })
		case "metadata":
			err = d.metadata(&child)
		default:
			_, err = d.value()
		}
		return err
	}, nil)
	if err != nil {
		return Child{}, err
	}
	child.JSON = d.Text[from:d.Pos:d.Pos]
	return child, d.checkChild(&child)
}

func (d *decoder) metadata(child *Child) error {
	if d.null() {
		return nil
	}
	if d.Space() != '{' {
		return d.wrong("an object")
	}
	return d.object(func(key []byte) (err error) {
		switch string(key) {
		case "name":
			child.Name, err = d.text(newString)
		case "namespace":
			child.Namespace, err = d.text(d.namespace)
		case "labels":
			child.Labels, err = d.labels()
		default:
			_, err = d.value()
		}
		return err
	}, nil)
}

func (d *decoder) labels() (Labels, error) {
	if d.null() {
		return nil, nil
	}
	if d.Space() != '{' {
		return nil, d.wrong("an object of strings")
	}
	found := make(Labels, 0, 4)
	err := d.object(func(key []byte) error {
		name := string(key)
		value, err := d.text(newString)
		found = append(found, Label{name, value})
		return err
	}, nil)
	slices.SortFunc(found, func(a, b Label) int { return cmp.Compare(a.Key, b.Key) })
	return found, err
}

// checkChild validates one child, and sets its namespace.
func (d *decoder) checkChild(child *Child) error {
	for _, field := range []struct{ name, value string }{{"apiVersion", child.APIVersion}, {"kind", child.Kind}, {"metadata.name", child.Name}} {
		if field.value == "" {
			return childFault(child, ReasonInvalidChild, "has no %s", field.name)
		}
	}
	declared := slices.IndexFunc(d.rules.Types, func(t Type) bool { return t.APIVersion == child.APIVersion && t.Kind == child.Kind })
	if declared < 0 {
		return childFault(child, ReasonUndeclaredChild, "is of the type %s of %s, which is not among the child resources of the controller: declare it there, or do not return it", child.Kind, child.APIVersion)
	}
	switch parent := d.rules.ParentNamespace; {
	case !d.rules.Types[declared].Namespaced && parent != "":
		return childFault(child, ReasonForeignNamespace, "is cluster-scoped, and its parent is in the namespace %s: such a parent cannot own it", parent)
	case !d.rules.Types[declared].Namespaced:
		child.Namespace = ""
	case child.Namespace == "" && parent == "":
		return childFault(child, ReasonInvalidChild, "has no metadata.namespace, and its parent has none either")
	case child.Namespace == "":
		child.Namespace = parent
	case parent != "" && child.Namespace != parent:
		return childFault(child, ReasonForeignNamespace, "is in another namespace than its parent, which is in %s and cannot own it", parent)
	}
	return nil
}

func childFault(child *Child, reason Reason, format string, args ...any) error {
	return &fault{reason: reason, text: fmt.Sprintf("(%s) ", child) + fmt.Sprintf(format, args...)}
}

// objectName identifies an object, independent of its version.
type objectName struct{ group, kind, namespace, name string }

func checkDuplicates(children []Child) error {
	places := make(map[objectName]int, len(children))
	for i := range children {
		child := &children[i]
		group, _, found := strings.Cut(child.APIVersion, "/")
		if !found {
			group = ""
		}
		name := objectName{group, child.Kind, child.Namespace, child.Name}
		if earlier, found := places[name]; found {
			return &fault{reason: ReasonDuplicateChild, text: fmt.Sprintf("has the same object at %d and at %d: %s", earlier, i, child)}
		}
		places[name] = i
	}
	return nil
}

func newString(text []byte) string { return string(text) }

func apiVersionOf(t *Type) string { return t.APIVersion }
func kindOf(t *Type) string       { return t.Kind }

// interned returns the equal string of a declared type, if there is one, so that children share it.
func (d *decoder) interned(text []byte, of func(t *Type) string) string {
	for i := range d.rules.Types {
		if known := of(&d.rules.Types[i]); known == string(text) {
			return known
		}
	}
	return string(text)
}

func (d *decoder) namespace(text []byte) string {
	if string(text) == d.rules.ParentNamespace {
		return d.rules.ParentNamespace
	}
	return string(text)
}
