// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import "encoding/json"

// EncodeIntent converts a struct to an intent.
func EncodeIntent(from any) (into map[string]any, err error) {
	content, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	return into, json.Unmarshal(content, &into)
}

// DecodeIntent converts an intent to a struct.
func DecodeIntent(from map[string]any, into any) error {
	content, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}
