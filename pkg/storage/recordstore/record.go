// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"encoding/json"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// writtenRecord is a record as it is sent.
type writtenRecord struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        writtenMetadata `json:"metadata"`
	Spec            struct {
		Object json.RawMessage `json:"object"`
	} `json:"spec"`
}

type writtenMetadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
}

// outline is what is looked at of a record that has come in. All of it is part of the text of the record.
type outline struct {
	metadata                         []byte
	namespace, name, resourceVersion []byte
	object                           []byte
}

// outlineOf finds the parts of a record.
func outlineOf(record []byte) (outline, error) {
	o, spec := outline{}, []byte(nil)
	if err := members(record, func(name, value []byte) {
		switch string(name) {
		case "metadata":
			o.metadata = value
		case "spec":
			spec = value
		}
	}); err != nil {
		return o, err
	}
	if err := members(o.metadata, func(name, value []byte) {
		switch string(name) {
		case "namespace":
			o.namespace = unquoted(value)
		case "name":
			o.name = unquoted(value)
		case "resourceVersion":
			o.resourceVersion = unquoted(value)
		}
	}); err != nil || spec == nil {
		return o, err
	}
	return o, members(spec, func(name, value []byte) {
		if string(name) == "object" {
			o.object = value
		}
	})
}

// unquoted returns a string as it is between the quotes: in none of those that are looked at there is anything to be escaped.
func unquoted(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// target is the object as what it is.
func target[T any, P object[T]](given runtime.Object) (P, error) {
	if object, ok := given.(P); ok && object != nil {
		return object, nil
	}
	return nil, fmt.Errorf("the storage of %T was given a %T", *new(P), given)
}

// encode encodes an object as a record holds it. It takes the resourceVersion out of the object, as every storage does.
func (s *store[T, P]) encode(object P) ([]byte, error) {
	if err := s.Versioner().PrepareObjectForStorage(object); err != nil {
		return nil, fmt.Errorf("preparing %s %s/%s to be stored: %w", s.objectKind.Kind, object.GetNamespace(), object.GetName(), err)
	}
	kind := object.GetObjectKind()
	before := kind.GroupVersionKind()
	kind.SetGroupVersionKind(s.objectKind)
	data, err := json.Marshal(object)
	kind.SetGroupVersionKind(before)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s/%s: %w", s.objectKind.Kind, object.GetNamespace(), object.GetName(), err)
	}
	return data, nil
}

// encodeChecked encodes an object that a client has sent, and decodes it. A time of the year 10,000, which a time zone can make of one that was decoded,
// cannot be decoded again, and then no list with the object can.
func (s *store[T, P]) encodeChecked(object P) ([]byte, error) {
	data, err := s.encode(object)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, P(new(T))); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the %s %s/%s cannot be decoded as it would be stored: %v", s.objectKind.Kind, object.GetNamespace(), object.GetName(), err))
	}
	return data, nil
}

// record encodes a record. Without a resourceVersion it is a new one.
func (s *store[T, P]) record(at location, object []byte, labels map[string]string, resourceVersion uint64) ([]byte, error) {
	record := writtenRecord{
		TypeMeta: metav1.TypeMeta{APIVersion: s.resource.records.GroupVersion().String(), Kind: s.recordKind},
		Metadata: writtenMetadata{Name: at.name, Namespace: at.namespace, Labels: labels},
	}
	if resourceVersion != 0 {
		record.Metadata.ResourceVersion = strconv.FormatUint(resourceVersion, 10)
	}
	record.Spec.Object = object
	data, err := json.Marshal(&record)
	if err != nil {
		return nil, fmt.Errorf("encoding the %s of %s: %w", s.recordKind, at.key, err)
	}
	return data, nil
}

// decode decodes the object of a record. The key is for errors.
func (s *store[T, P]) decode(record []byte, key string, into P) error {
	outline, err := outlineOf(record)
	if err == nil && !s.decoded.copy(outline.object, into) {
		*into = *new(T)
		if err = json.Unmarshal(outline.object, into); err == nil {
			s.decoded.remember(outline.object, into)
		}
	}
	if err == nil {
		err = s.check(outline, into)
	}
	if err != nil {
		return storage.NewCorruptObjError(key, s.undecodable(outline, err))
	}
	into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	into.SetResourceVersion(string(outline.resourceVersion))
	return nil
}

// check returns an error if the object does not match its record.
func (s *store[T, P]) check(outline outline, object P) error {
	if kind := object.GetObjectKind().GroupVersionKind(); kind != s.objectKind {
		return fmt.Errorf("it is of kind %q of %q", kind.Kind, kind.GroupVersion())
	}
	if object.GetName() != string(outline.name) || object.GetNamespace() != string(outline.namespace) {
		return fmt.Errorf("it is named %s/%s", object.GetNamespace(), object.GetName())
	}
	return nil
}

func (s *store[T, P]) undecodable(record outline, err error) error {
	return fmt.Errorf("spec.object of %s %s/%s is no %s of %s: %w; repair it, or delete it: kubectl delete %s.%s -n %s %s --as=ACCOUNT-OF-THIS-SERVER",
		s.recordKind, record.namespace, record.name, s.objectKind.Kind, s.objectKind.GroupVersion(), err,
		s.resource.records.Resource, s.resource.records.Group, record.namespace, record.name)
}
