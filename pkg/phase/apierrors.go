// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Definitive makes a *Failure of an answer of the API server that stays the same when it is asked again. Its text is that of the
// answer alone, as users know it.
func Definitive(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	switch code := answer.Status().Code; {
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests, code == http.StatusConflict && apierrors.IsConflict(err),
		code == http.StatusUnauthorized:
		return err
	default:
		return &Failure{answer.Status().Message}
	}
}

// failed is a call that has ended because of a *Failure. Any other error is returned.
func failed(err error) (Observation, error) {
	if message, ok := FailureOf(err); ok {
		return Observation{State: Failed, Message: message}, nil
	}
	return Observation{}, err
}

// encode makes an intent of a struct, and decode the reverse.
func encode(from any) (into map[string]any, err error) {
	content, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	return into, json.Unmarshal(content, &into)
}

func decode(from map[string]any, into any) error {
	content, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// manifests are the objects of one or more documents of YAML.
func manifests(text string) (objects []*unstructured.Unstructured, err error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, Failf("reading the spec: %v", err)
		}
		if len(bytes.TrimSpace(raw.Raw)) == 0 || string(raw.Raw) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw.Raw); err != nil {
			return nil, Failf("reading the spec: %v", err)
		}
		if object.IsList() {
			return nil, Failf("the spec has a list: write its items as documents of their own, with --- between")
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		return nil, Failf("the spec has no object")
	}
	return objects, nil
}
