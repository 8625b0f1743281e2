// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"mime"
	"net/http"
	"strings"
	"unicode"
)

// shownBody is how many bytes of the body of a failed answer are shown.
const shownBody = 200

// excerpt returns the beginning of the body of a failed answer, as one line, for users who may read the condition of the controller and the
// events of its parents. The answer may not come from a hook: a controller may name any address that only the engine can reach. So only a
// short text about the problem is shown, and nothing of HTML pages, of binary bodies, or of answers that are no errors. The credentials
// of the call are removed, in case the answer repeats them.
func excerpt(code int, header http.Header, body []byte, authorization string) string {
	if code < http.StatusBadRequest {
		return ""
	}
	switch kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); kind {
	case "", "text/plain", "application/json", "application/problem+json":
	default:
		return ""
	}
	text := string(body)
	if _, credential, _ := strings.Cut(authorization, " "); credential != "" {
		text = strings.ReplaceAll(text, credential, "[credentials]")
	}
	text = strings.TrimSpace(printable(text[:min(len(text), 4*shownBody)]))
	if len(text) > shownBody {
		text = strings.ToValidUTF8(text[:shownBody-len("...")], "") + "..."
	}
	return text
}

// printable replaces what is not printable by spaces.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
