// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/jsonscan"
)

// decoder is that of the generated clients.
var decoder = func() runtime.Decoder {
	codecs := rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion()
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return codecs.DecoderToVersion(info.Serializer, nil)
}()

// decodeList decodes a list as a whole, and if that fails, each of its items by itself.
func (r *Resource) decodeList(text []byte) (runtime.Object, error) {
	list, failed := runtime.Decode(decoder, text)
	if failed == nil {
		if status, ok := list.(*metav1.Status); ok {
			return nil, apierrors.FromObject(status)
		}
		return list, nil
	}
	envelope, items, err := splitList(text)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	if list, err = runtime.Decode(decoder, envelope); err != nil {
		return nil, errors.Join(failed, err)
	}
	var objects []runtime.Object
	for _, item := range items {
		object, failed, err := decodeObject(item)
		switch {
		case err != nil:
			return nil, err
		case failed != nil:
			r.Report(object, failed)
		default:
			objects = append(objects, object)
		}
	}
	if err := meta.SetList(list, objects); err != nil {
		return nil, fmt.Errorf("collecting the items of a list: %w", err)
	}
	return list, nil
}

// decodeObject decodes an object, or its metadata if that fails.
func decodeObject(text []byte) (object runtime.Object, failed, err error) {
	object, failed = runtime.Decode(decoder, text)
	if failed == nil {
		return object, nil, nil
	}
	header, err := membersOf(text, `"apiVersion"`, `"kind"`, `"metadata"`)
	if err == nil {
		object, err = runtime.Decode(decoder, header)
	}
	if _, ok := object.(metav1.Object); err != nil || !ok {
		return nil, nil, errors.Join(failed, err)
	}
	return object, failed, nil
}

// splitList returns a list without its items, and the texts of these.
func splitList(text []byte) (envelope []byte, items [][]byte, err error) {
	if envelope, err = membersOf(text, `"apiVersion"`, `"kind"`, `"metadata"`); err != nil {
		return nil, nil, err
	}
	err = jsonscan.EachMember(text, func(key, value []byte) error {
		if string(key) != `"items"` || string(value) == "null" {
			return nil
		}
		scanner := jsonscan.Scanner{Text: value}
		if err := scanner.Open(); err != nil {
			return err
		}
		for {
			more, err := scanner.Next(']')
			if err != nil || !more {
				return err
			}
			item, _, err := scanner.Skip()
			if err != nil {
				return err
			}
			items = append(items, item)
		}
	})
	return envelope, items, err
}

// membersOf returns an object that has only the members with these quoted keys.
func membersOf(text []byte, keys ...string) ([]byte, error) {
	members := []byte{'{'}
	err := jsonscan.EachMember(text, func(key, value []byte) error {
		if slices.Contains(keys, string(key)) {
			if len(members) > 1 {
				members = append(members, ',')
			}
			members = append(append(append(members, key...), ':'), value...)
		}
		return nil
	})
	return append(members, '}'), err
}
