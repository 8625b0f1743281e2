// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestBodyOfFailedAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		code             int
		kind, body, want string
	}{
		"a sentence":             {500, "text/plain; charset=utf-8", "the database is down\n", "unsupported status code: 500 body: the database is down"},
		"JSON":                   {400, "application/json", `{"error":"no spec.size"}`, `unsupported status code: 400 body: {"error":"no spec.size"}`},
		"no type":                {500, "-", "boom", "unsupported status code: 500 body: boom"},
		"many bytes":             {500, "text/plain", strings.Repeat("é", 5000), "unsupported status code: 500 body: " + strings.Repeat("é", 98) + "..."},
		"control characters":     {500, "text/plain", "a\x00\x1b[31mb\nc\xff", "unsupported status code: 500 body: a  [31mb c"},
		"credentials sent back":  {401, "text/plain", "no such token: s3cr3t", "unsupported status code: 401 body: no such token: [credentials]"},
		"HTML":                   {500, "text/html", "<html>secret</html>", "unsupported status code: 500"},
		"no text":                {500, "application/octet-stream", "secret", "unsupported status code: 500"},
		"no body":                {500, "text/plain", "", "unsupported status code: 500"},
		"a success, but not 200": {201, "application/json", `{"secret":"created"}`, "unsupported status code: 201"},
		"a redirect to nowhere":  {302, "text/plain", "secret", "unsupported status code: 302"},
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{
				Access: Access{Authorization: &Authorization{SecretRef: KeyRef{"ns", "token", "token"}}},
				Source: fakeSource{secrets: map[string]map[string][]byte{"ns/token": {"token": []byte("s3cr3t")}}},
			}
			hook := serve(t, Options{}, config, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{test.kind}
				if test.kind == "-" {
					w.Header()["Content-Type"] = nil
				}
				w.WriteHeader(test.code)
				_, _ = io.WriteString(w, test.body)
			})
			e := wantReason(t, call(t, hook), ReasonStatus)
			if Message(e) != test.want {
				t.Errorf("the message is %q, want %q", Message(e), test.want)
			}
			if _, body, found := strings.Cut(Message(e), " body: "); found && (len(body) > shownBody || strings.Contains(e.Error(), body)) {
				t.Errorf("%d bytes of the body are shown, and %q is logged", len(body), e)
			}
		})
	}
}
