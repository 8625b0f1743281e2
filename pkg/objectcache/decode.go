// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	"millwright.dev/pkg/jsonscan"
)

// decoder makes RawObjects of what the API server sends for one watch, without intermediate trees, and without copying objects that the
// cache already has.
type decoder struct {
	mu     sync.Mutex // client-go may use a serializer in several goroutines
	parser parser
}

// negotiated is the serializer of a REST client whose answers are RawObjects.
func (d *decoder) negotiated() runtime.NegotiatedSerializer {
	return runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{
		MediaType:        runtime.ContentTypeJSON,
		MediaTypeType:    "application",
		MediaTypeSubType: "json",
		EncodesAsText:    true,
		Serializer:       objectSerializer{d},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    frameSerializer{},
			Framer:        jsonserializer.Framer,
		},
	})
}

// objectSerializer decodes the objects of watch events, which client-go has seen to be valid JSON, and the Status of an error.
type objectSerializer struct{ decoder *decoder }

func (s objectSerializer) Decode(data []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	s.decoder.mu.Lock()
	object, err := s.decoder.parser.parse(data, nil)
	s.decoder.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	kind := object.GroupVersionKind()
	if kind != (schema.GroupVersionKind{Version: "v1", Kind: "Status"}) {
		return object, &kind, nil
	}
	status := &metav1.Status{}
	if err := object.Decode(status); err != nil {
		return nil, nil, fmt.Errorf("decoding a Status of the API server: %w", err)
	}
	return status, &kind, nil
}

func (objectSerializer) Encode(runtime.Object, io.Writer) error { return errReadOnly }

func (objectSerializer) Identifier() runtime.Identifier { return "millwright-raw-object" }

var errReadOnly = errors.New("objectcache: its clients only read")

// frameSerializer decodes the envelope of a watch event.
type frameSerializer struct{}

// Decode leaves in the event a part of data, which client-go decodes before it reads on.
func (frameSerializer) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("decoding a watch event into a %T", into)
	}
	if err := readFrame(data, event); err != nil {
		return nil, nil, fmt.Errorf("decoding a watch event: %w", err)
	}
	return event, nil, nil
}

func (frameSerializer) Encode(runtime.Object, io.Writer) error { return errReadOnly }

func (frameSerializer) Identifier() runtime.Identifier { return "millwright-watch-event" }

func readFrame(data []byte, event *metav1.WatchEvent) error {
	return jsonscan.EachMember(data, func(key, value []byte) error {
		switch string(key) {
		case `"type"`:
			event.Type = strings.Trim(string(value), `"`)
		case `"object"`:
			event.Object.Raw = value
		}
		return nil
	})
}

// rawList is a list of RawObjects.
type rawList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object. The list and its items are never changed.
func (l *rawList) DeepCopyObject() runtime.Object { return l }

// list reads a list from a stream, one item at a time.
func (d *decoder) list(body io.Reader) (*rawList, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := &rawList{}
	stream := json.NewDecoder(body)
	if err := expect(stream, json.Delim('{')); err != nil {
		return nil, fmt.Errorf("reading a list: %w", err)
	}
	for stream.More() {
		key, err := stream.Token()
		if err == nil {
			err = d.listMember(stream, key, list)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
	}
	if err := expect(stream, json.Delim('}')); err != nil {
		return nil, fmt.Errorf("reading a list: %w", err)
	}
	return list, nil
}

func (d *decoder) listMember(stream *json.Decoder, key json.Token, list *rawList) error {
	switch key {
	case "kind":
		return stream.Decode(&list.Kind)
	case "apiVersion":
		return stream.Decode(&list.APIVersion)
	case "metadata":
		return stream.Decode(&list.ListMeta)
	case "items":
		return d.items(stream, list)
	default:
		var ignored json.RawMessage
		return stream.Decode(&ignored)
	}
}

func (d *decoder) items(stream *json.Decoder, list *rawList) error {
	token, err := stream.Token()
	if err != nil || token == nil { // "items": null
		return err
	}
	if token != json.Delim('[') {
		return fmt.Errorf("its items begin with %v", token)
	}
	// Lists of custom resources have their kind after the items, which then have kinds of their own.
	var listed *objectKind
	if kind, found := strings.CutSuffix(list.Kind, "List"); found && kind != "" && list.APIVersion != "" {
		listed = newKind(list.APIVersion, kind)
	}
	var text json.RawMessage // its memory is used for each item
	for stream.More() {
		if err := stream.Decode(&text); err != nil {
			return err
		}
		item, err := d.parser.parse(text, listed)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, item)
	}
	return expect(stream, json.Delim(']'))
}

func expect(stream *json.Decoder, want json.Delim) error {
	token, err := stream.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%v instead of %v", token, want)
	}
	return nil
}
