// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"millwright.dev/pkg/jsonscan"
)

// maxObjectMemory is how much memory an object of any kind may take when it is decoded, in bytes. Ordinary objects take about six times their size as JSON,
// those with many small values fifty times. Each worker may hold that much.
const maxObjectMemory = 16 << 20

// errObjectTooLarge is the error of a request whose answer would take more than maxObjectMemory.
var errObjectTooLarge = Failf("ObjectTooLarge: the object takes more than %d bytes of memory when it is read", maxObjectMemory)

// BoundObjects returns the configuration for a client that decodes objects of any kind. How much memory an object takes is estimated before it is decoded: if
// it is too much, the error of the request wraps a *Failure. It is not for a client that watches.
func BoundObjects(config *rest.Config) *rest.Config {
	bounded := rest.CopyConfig(config)
	bounded.Wrap(func(next http.RoundTripper) http.RoundTripper { return objectBound{next} })
	return bounded
}

type objectBound struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b objectBound) RoundTrip(req *http.Request) (*http.Response, error) {
	AddReads(req.Context(), 1, 0)
	answer, err := b.next.RoundTrip(req)
	if err != nil || answer.StatusCode/100 != 2 {
		return answer, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxObjectMemory+1))
	_ = answer.Body.Close() // all that is needed was read
	if err != nil {
		answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), failingReader{err}))
		return answer, nil
	}
	memory := jsonscan.DecodedMemory(text)
	AddReads(req.Context(), 0, memory)
	if req.Context().Value(onlyMetadataKey{}) != nil {
		text = onlyMetadata(text)
		memory = jsonscan.DecodedMemory(text)
	}
	if memory > maxObjectMemory {
		return nil, errObjectTooLarge
	}
	if admit, ok := req.Context().Value(admitKey{}).(func(int) error); ok {
		if err := admit(memory); err != nil {
			return nil, err
		}
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer, nil
}

// failingReader fails as the body of an answer has.
type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

type admitKey struct{}

// WithAdmission returns a context for requests of a client of [BoundObjects]. It calls admit with about how much memory an object takes when it is decoded, in
// bytes, before it is. The error of a request wraps that of admit.
func WithAdmission(ctx context.Context, admit func(memory int) error) context.Context {
	return context.WithValue(ctx, admitKey{}, admit)
}

type onlyMetadataKey struct{}

// OnlyMetadata returns a context for requests of a client of [BoundObjects] that decode of each object only its kind and its metadata, without managedFields.
// So the object may have any size.
func OnlyMetadata(ctx context.Context) context.Context {
	return context.WithValue(ctx, onlyMetadataKey{}, true)
}

// onlyMetadata returns the JSON of an object with nothing but its kind and its metadata. It returns the text as it is if that is no object.
func onlyMetadata(text []byte) []byte {
	kept, err := pick(text, func(key string, value []byte) ([]byte, error) {
		switch key {
		case `"apiVersion"`, `"kind"`:
			return value, nil
		case `"metadata"`:
			return pick(value, func(key string, value []byte) ([]byte, error) {
				if key == `"managedFields"` {
					return nil, nil
				}
				return value, nil
			})
		default:
			return nil, nil
		}
	})
	if err != nil {
		return text
	}
	return kept
}

// pick returns an object with the members of another one for which keep returns a value. The keys are quoted.
func pick(text []byte, keep func(key string, value []byte) ([]byte, error)) ([]byte, error) {
	kept := []byte{'{'}
	err := jsonscan.EachMember(text, func(key, value []byte) error {
		value, err := keep(string(key), value)
		if err != nil || value == nil {
			return err
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(append(kept, key...), ':'), value...)
		return nil
	})
	return append(kept, '}'), err
}
