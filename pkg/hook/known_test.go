// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKnownChildrenAreNotDecodedAgain decodes answers one after the other, with what is known of those before and without.
func TestKnownChildrenAreNotDecodedAgain(t *testing.T) {
	const (
		a = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"x"}}}`
		b = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`
		c = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
	)
	var known Known
	for _, answer := range []struct {
		body     string
		recalled bool
	}{
		{`{"children":[` + a + `, ` + b + `]}`, false},
		{`{"status":{"ready":1},"children":[` + a + `, ` + b + `]}`, true},
		{`{ "children": [` + a + `, ` + b + `] ,"status":{}}`, true},
		{`{"children":[` + a + `,` + b + `]}`, false}, // another text
		{`{"children":[` + a + `,` + c + `]}`, false},
		{`{"children":[` + a + `,` + c + `],"status":1}`, false}, // an error
		{`{"children":[` + a + `,` + b + `],"status":1}`, false}, // an error, of which nothing is known
		{`{"children":[` + a + `,` + c + `]}`, true},
		{`{"children":[` + a + `,` + c + `,` + b + `]}`, false},
		{`{"children":[` + a + `,` + c + `,` + b + `],"children":[` + b + `]}`, false},
		{`{"children":[` + b + `]}`, true},
		{`{"children":null}`, false},
		{`{"children":[` + b + `]}`, false},
		{`{}`, false},
		{`{"children":[` + b + `]}`, false},
		{`{"children":[` + b, false}, // an error
		{`{"children":[]}`, false},
		{`{"children":[]}`, true},
	} {
		body := []byte(answer.body)
		rules := rulesFor("ns", false)
		want, wantErr := DecodeComposite(body, rules)
		rules.Known = &known
		got, err := DecodeComposite(body, rules)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%s: the error is %v, want %v", answer.body, err, wantErr)
		}
		if err == nil {
			if want.Recalled = answer.recalled; len(want.Children) == 0 && len(got.Children) == 0 {
				want.Children, got.Children = nil, nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", answer.body, diff)
			}
		}
		clear(body) // its memory is that of another answer now
	}
}
