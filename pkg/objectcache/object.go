// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"encoding/json"
	"strings"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// RawObject is an object of any kind, as compact JSON with a small header of the fields that controllers need. It never changes, and may
// be shared and kept. A kept part of an old version keeps its whole JSON in memory.
//
// The JSON begins with apiVersion and kind, has no white space between its parts, and no metadata.managedFields unless they were requested.
// Everything else, including numbers and the order of members, is as the API server sent it.
type RawObject struct {
	text string
	kind *objectKind

	namespace, name, uid, resourceVersion, deletionTimestamp span

	generation int64
	owner      ownerSpans
	labels     []labelSpan
}

// objectKind is shared by the objects of a watch.
type objectKind struct {
	apiVersion, kind string
	// prefix begins the JSON of each object of the kind.
	prefix string
}

// span is where in the JSON a string is, without its quotes: of a header only this is stored, never a copy.
type span struct{ start, size uint32 }

// escaped marks in a span's size a string with escapes. No valid name, UID, or label has any, but some path segment names do.
const escaped = 1 << 31

type ownerSpans struct{ apiVersion, kind, name, uid span }

type labelSpan struct{ key, value span }

// Owner is the controller of an object, as the object's ownerReferences have it.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

// JSON returns the whole object.
func (o *RawObject) JSON() string { return o.text }

// Decode unmarshals the object. Numbers become float64 in trees: for those use k8s.io/apimachinery/pkg/util/json with JSON.
func (o *RawObject) Decode(into any) error { return json.Unmarshal(o.bytes(), into) }

// bytes are for readers only.
func (o *RawObject) bytes() []byte { return unsafe.Slice(unsafe.StringData(o.text), len(o.text)) }

// APIVersion returns the group and version, "v1" for one of the core group.
func (o *RawObject) APIVersion() string { return o.kind.apiVersion }

// Kind returns the kind.
func (o *RawObject) Kind() string { return o.kind.kind }

// GetNamespace returns "" for an object of a cluster-scoped kind.
func (o *RawObject) GetNamespace() string { return o.string(o.namespace) }

// GetName returns the name.
func (o *RawObject) GetName() string { return o.string(o.name) }

// GetUID returns the UID.
func (o *RawObject) GetUID() types.UID { return types.UID(o.string(o.uid)) }

// GetResourceVersion returns the resourceVersion.
func (o *RawObject) GetResourceVersion() string { return o.string(o.resourceVersion) }

// GetGeneration returns 0 for kinds without a generation.
func (o *RawObject) GetGeneration() int64 { return o.generation }

// Deleting reports whether the object has a deletionTimestamp.
func (o *RawObject) Deleting() bool { return o.deletionTimestamp.size > 0 }

// GetDeletionTimestamp returns nil for an object that is not being deleted.
func (o *RawObject) GetDeletionTimestamp() *metav1.Time {
	if !o.Deleting() {
		return nil
	}
	deleted, err := time.Parse(time.RFC3339, o.string(o.deletionTimestamp))
	if err != nil {
		return &metav1.Time{}
	}
	return &metav1.Time{Time: deleted.Local()}
}

// ControllerUID returns the UID of the object's controller, "" where it has none.
func (o *RawObject) ControllerUID() types.UID { return types.UID(o.string(o.owner.uid)) }

// Controller returns the owner that is marked as the controller. False: the object is ownerless, and may be adopted.
func (o *RawObject) Controller() (Owner, bool) {
	if o.owner.uid.size == 0 {
		return Owner{}, false
	}
	return Owner{
		APIVersion: o.string(o.owner.apiVersion),
		Kind:       o.string(o.owner.kind),
		Name:       o.string(o.owner.name),
		UID:        o.ControllerUID(),
	}, true
}

// Labels returns the labels for selectors to match, without making a map of them.
func (o *RawObject) Labels() labels.Labels { return (*labelView)(o) }

func (o *RawObject) string(s span) string {
	text := o.text[s.start : s.start+s.size&^escaped]
	if s.size&escaped == 0 {
		return text
	}
	var unescaped string
	if json.Unmarshal([]byte(`"`+text+`"`), &unescaped) != nil {
		return text
	}
	return unescaped
}

// labelView is a RawObject seen as its labels.
type labelView RawObject

// Lookup implements labels.Labels.
func (v *labelView) Lookup(key string) (value string, exists bool) {
	o := (*RawObject)(v)
	for _, label := range o.labels {
		if o.string(label.key) == key {
			return o.string(label.value), true
		}
	}
	return "", false
}

// Has implements labels.Labels.
func (v *labelView) Has(key string) bool {
	_, exists := v.Lookup(key)
	return exists
}

// Get implements labels.Labels.
func (v *labelView) Get(key string) string {
	value, _ := v.Lookup(key)
	return value
}

// GetObjectKind implements runtime.Object.
func (o *RawObject) GetObjectKind() schema.ObjectKind { return o }

// GroupVersionKind implements schema.ObjectKind.
func (o *RawObject) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.kind.apiVersion, o.kind.kind)
}

// DeepCopyObject implements runtime.Object: what never changes is its own copy.
func (o *RawObject) DeepCopyObject() runtime.Object { return o }

// newerThan reports whether the object is of a later resourceVersion. Versions that cannot be compared count as newer nowhere.
func (o *RawObject) newerThan(resourceVersion string) bool {
	return newer(o.GetResourceVersion(), resourceVersion)
}

// sameVersion reports whether both are the same state of the same object. o may be nil.
func (o *RawObject) sameVersion(other *RawObject) bool {
	return o != nil && o.GetResourceVersion() == other.GetResourceVersion() && o.GetUID() == other.GetUID()
}

// clone is for strings that outlive the object that they came with.
func clone[S ~string](s S) S { return S(strings.Clone(string(s))) }
