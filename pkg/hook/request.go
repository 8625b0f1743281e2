// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"unicode/utf8"
)

// Object is one object in a request.
type Object struct {
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
	// JSON is the whole object. It is neither copied nor checked.
	JSON string
}

// Group are the objects of one type. It is in the request even where it has none.
type Group struct {
	APIVersion, Kind string
	Objects          []Object
}

// CompositeRequest is what a sync or finalize hook of a composite controller is asked.
type CompositeRequest struct {
	// Controller and Parent are whole objects.
	Controller, Parent string
	// ParentNamespace is empty for a cluster-scoped parent.
	ParentNamespace string
	// Children and Related have at most one group of each type.
	Children, Related []Group
	Finalizing        bool
}

// DecoratorRequest is what a sync or finalize hook of a decorator controller is asked.
type DecoratorRequest struct {
	Controller, Object   string
	ObjectNamespace      string
	Attachments, Related []Group
	Finalizing           bool
}

// CustomizeRequest is the request to a customize hook, of composite and of decorator controllers.
type CustomizeRequest struct{ Controller, Parent string }

// Request is the body of a request, ready to be sent any number of times. It consists of the stored text of the objects and
// what stands between them, so it costs next to nothing to make, and has members and objects always in the same order.
type Request struct {
	parts []string
	size  int64
}

// partParent is the index of the parent among the parts: the controller comes before it, and text before each of them.
const partParent = 3

// NewCompositeRequest puts a request together.
func NewCompositeRequest(version Version, r CompositeRequest) *Request {
	w := newWriter(r.Children, r.Related)
	w.text(`{"controller":`)
	w.raw(r.Controller)
	w.text(`,"parent":`)
	w.raw(r.Parent)
	w.text(`,"children":`)
	w.groups(version, r.ParentNamespace, r.Children)
	w.text(`,"related":`)
	w.groups(version, r.ParentNamespace, r.Related)
	return w.finish(r.Finalizing)
}

// NewDecoratorRequest puts a request together.
func NewDecoratorRequest(version Version, r DecoratorRequest) *Request {
	w := newWriter(r.Attachments, r.Related)
	w.text(`{"controller":`)
	w.raw(r.Controller)
	w.text(`,"object":`)
	w.raw(r.Object)
	w.text(`,"attachments":`)
	w.groups(version, r.ObjectNamespace, r.Attachments)
	w.text(`,"related":`)
	w.groups(version, r.ObjectNamespace, r.Related)
	return w.finish(r.Finalizing)
}

// NewCustomizeRequest puts a request together.
func NewCustomizeRequest(r CustomizeRequest) *Request {
	w := newWriter()
	w.text(`{"controller":`)
	w.raw(r.Controller)
	w.text(`,"parent":`)
	w.raw(r.Parent)
	w.text(`}`)
	return w.request()
}

// WithParent returns the request of a composite controller about another state of its parent, with the same objects otherwise.
func (r *Request) WithParent(parent string) *Request {
	other := &Request{slices.Clone(r.parts), r.size}
	before := &other.parts[partParent]
	other.size += int64(len(parent) - len(*before))
	*before = parent
	return other
}

// Len is the size of the body in bytes.
func (r *Request) Len() int64 { return r.size }

// WriteTo writes the body, as an [io.WriterTo] does.
func (r *Request) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for _, part := range r.parts {
		n, err := io.WriteString(w, part)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// open returns the body from its beginning.
func (r *Request) open() io.ReadCloser { return &requestBody{parts: r.parts} }

type requestBody struct {
	parts []string
	read  int // of the first part
}

func (b *requestBody) Read(p []byte) (n int, err error) {
	for len(b.parts) > 0 && n < len(p) {
		copied := copy(p[n:], b.parts[0][b.read:])
		n += copied
		if b.read += copied; b.read == len(b.parts[0]) {
			b.parts, b.read = b.parts[1:], 0
		}
	}
	if n == 0 && len(b.parts) == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (b *requestBody) Close() error { return nil }

// writer collects the parts of a request. What stands between the objects goes into one buffer, which is cut up in the end.
type writer struct {
	between []byte
	cuts    []int // where in between the objects stand
	objects []string
	order   []keyedEntry
	keys    []byte
}

// keyedEntry is an object or a group with its key, which stands in the writer's keys.
type keyedEntry struct {
	from, to int
	index    int
}

func newWriter(maps ...[]Group) *writer {
	objects, size := 2, 128
	for _, groups := range maps {
		for _, group := range groups {
			size += len(group.APIVersion) + len(group.Kind) + 8
			objects += len(group.Objects)
			for _, object := range group.Objects {
				size += len(object.Namespace) + len(object.Name) + 8
			}
		}
	}
	return &writer{between: make([]byte, 0, size), cuts: make([]int, 0, objects), objects: make([]string, 0, objects)}
}

func (w *writer) text(text string) { w.between = append(w.between, text...) }

func (w *writer) raw(object string) {
	w.cuts = append(w.cuts, len(w.between))
	w.objects = append(w.objects, object)
}

// groups writes a map from types to maps from keys to objects, sorted by both.
func (w *writer) groups(version Version, parentNamespace string, groups []Group) {
	w.text(`{`)
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(groups[a].Kind+"."+groups[a].APIVersion, groups[b].Kind+"."+groups[b].APIVersion)
	})
	for i, index := range order {
		if i > 0 {
			w.text(`,`)
		}
		group := &groups[index]
		w.key(append(append(append(w.keys[:0], group.Kind...), '.'), group.APIVersion...))
		w.group(version, parentNamespace, group.Objects)
	}
	w.text(`}`)
}

func (w *writer) group(version Version, parentNamespace string, objects []Object) {
	w.text(`{`)
	w.order, w.keys = w.order[:0], w.keys[:0]
	for i := range objects {
		from := len(w.keys)
		if keys, shown := appendKey(w.keys, version, parentNamespace, &objects[i]); shown {
			w.keys = keys
			w.order = append(w.order, keyedEntry{from, len(keys), i})
		}
	}
	byKey := func(a, b keyedEntry) int { return bytes.Compare(w.keys[a.from:a.to], w.keys[b.from:b.to]) }
	if !slices.IsSortedFunc(w.order, byKey) {
		slices.SortFunc(w.order, byKey)
	}
	for i, one := range w.order {
		if i > 0 {
			w.text(`,`)
		}
		w.key(w.keys[one.from:one.to])
		w.raw(objects[one.index].JSON)
	}
	w.text(`}`)
}

// appendKey appends the key of an object, unless the version does not show it to this parent: with v1, a namespaced parent
// sees objects of its own namespace alone.
func appendKey(keys []byte, version Version, parentNamespace string, object *Object) ([]byte, bool) {
	if version == V1 && parentNamespace != "" {
		if object.Namespace != parentNamespace {
			return keys, false
		}
		return append(keys, object.Name...), true
	}
	if object.Namespace != "" {
		keys = append(append(keys, object.Namespace...), '/')
	}
	return append(keys, object.Name...), true
}

// key writes a JSON string and a colon.
func (w *writer) key(key []byte) {
	if slices.ContainsFunc(key, func(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf }) {
		quoted, _ := json.Marshal(string(key)) // a string can always be encoded
		w.between = append(append(w.between, quoted...), ':')
		return
	}
	w.between = append(append(append(w.between, '"'), key...), `":`...)
}

func (w *writer) finish(finalizing bool) *Request {
	if finalizing {
		w.text(`,"finalizing":true}`)
	} else {
		w.text(`,"finalizing":false}`)
	}
	return w.request()
}

func (w *writer) request() *Request {
	between := string(w.between)
	r := &Request{parts: make([]string, 0, 2*len(w.objects)+1), size: int64(len(between))}
	from := 0
	for i, object := range w.objects {
		r.parts = append(r.parts, between[from:w.cuts[i]], object)
		r.size += int64(len(object))
		from = w.cuts[i]
	}
	r.parts = append(r.parts, between[from:])
	return r
}
