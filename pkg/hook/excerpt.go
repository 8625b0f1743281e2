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

// excerpt is the beginning of the body of a failed answer, as one line, for whom may read the condition of the controller and the events
// of its parents. The answer need not come from a hook: an address that only the engine reaches may stand in the controller, so that no
// more of it is shown than a sentence about what is wrong. A page in HTML has no such sentence, nor has what is
// no text, or succeeded in something else. The credentials of the call are left out, in case they are sent back.
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
