// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrUnreadableIntent is the error of an intent that is not as its function has recorded it: the status was edited.
var ErrUnreadableIntent = errors.New("it is not as the phase has recorded it")

// NewNonce returns a text that no other client can guess, for an intent: it is on what the phase makes, so that a name and labels that anybody can compute
// do not make an object the phase's. Clients that may read ActionSets see it.
func NewNonce() string { return rand.Text() }

// EncodeIntent converts a struct to an intent.
func EncodeIntent(from any) (into map[string]any, err error) {
	content, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	return into, json.Unmarshal(content, &into)
}

// DecodeIntent converts an intent to a struct. Its error wraps ErrUnreadableIntent.
func DecodeIntent(from map[string]any, into any) error {
	content, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return fmt.Errorf("%w: %v", ErrUnreadableIntent, err)
	}
	return nil
}
