// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"bytes"
	"regexp"

	"k8s.io/apimachinery/pkg/util/sets"
)

// template is a body or a URI with places for what the API server makes up anew each time: UIDs and resourceVersions.
type template struct {
	texts  [][]byte // one more than there are places
	places []string // the value that was recorded in each
}

// placePattern finds the places. In protobuf resourceVersions stay as recorded, since they are not all of one length: the only ones that
// we send so stand in events and in what is frozen of a run, where nobody reads them. A UID in protobuf gives way to another one, which is
// as long.
var placePattern = regexp.MustCompile(`"resourceVersion":"([0-9]+)"|([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`)

// newTemplate leaves places for the recorded values that are known to be made up.
func newTemplate(body []byte, madeUp sets.Set[string]) template {
	var t template
	protobuf := bytes.HasPrefix(body, []byte("k8s\x00"))
	from := 0
	for _, match := range placePattern.FindAllSubmatchIndex(body, -1) {
		start, end := match[2], match[3]
		if start < 0 {
			start, end = match[4], match[5]
		} else if protobuf {
			continue
		}
		if value := string(body[start:end]); madeUp.Has(value) {
			t.texts, t.places = append(t.texts, body[from:start]), append(t.places, value)
			from = end
		}
	}
	t.texts = append(t.texts, body[from:])
	return t
}

// fill returns the body with what now stands for each recorded value.
func (t template) fill(now map[string]string) []byte {
	if len(t.places) == 0 {
		return t.texts[0]
	}
	var body bytes.Buffer
	for i, value := range t.places {
		body.Write(t.texts[i])
		body.WriteString(now[value])
	}
	body.Write(t.texts[len(t.places)])
	return body.Bytes()
}
