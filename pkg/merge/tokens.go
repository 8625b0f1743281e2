// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import "unicode/utf8"

// The tokens of JSON (RFC 8259), as far as a hash needs them.

// peek returns the next byte, 0 at the end.
func (h *hasher) peek() byte {
	if h.at < len(h.text) {
		return h.text[h.at]
	}
	return 0
}

// take goes past the next byte if it is this one.
func (h *hasher) take(c byte) bool {
	if h.at < len(h.text) && h.text[h.at] == c {
		h.at++
		return true
	}
	return false
}

func (h *hasher) space() {
	for h.at < len(h.text) {
		switch h.text[h.at] {
		case ' ', '\t', '\r', '\n':
			h.at++
		default:
			return
		}
	}
}

// string reads a string and returns it as it stands, with its quotes. It is plain if it is of ASCII and has no escapes.
func (h *hasher) string() (token []byte, plain bool, err error) {
	start := h.at
	plain = true
	for h.at++; h.at < len(h.text); h.at++ {
		switch c := h.text[h.at]; {
		case c == '"':
			h.at++
			return h.text[start:h.at], plain, nil
		case c < ' ':
			return nil, false, errNotJSON
		case c == '\\':
			plain = false
			h.at++
			if !h.escape() {
				return nil, false, errNotJSON
			}
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return nil, false, errNotJSON
}

// escape stands at what follows a backslash, and stops at the last byte of it.
func (h *hasher) escape() bool {
	switch h.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			h.at++
			switch c := h.peek(); {
			case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			default:
				return false
			}
		}
		return true
	}
	return false
}

// word reads a number, true, false or null.
func (h *hasher) word() (token []byte, err error) {
	start := h.at
	for h.at < len(h.text) && isWord(h.text[h.at]) {
		h.at++
	}
	token = h.text[start:h.at]
	switch string(token) {
	case "true", "false", "null":
		return token, nil
	}
	if !isNumber(token) {
		return nil, errNotJSON
	}
	return token, nil
}

func isWord(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isNumber reports whether this is a number as JSON writes it: no leading zeros, no plus sign, digits around the point.
func isNumber(token []byte) bool {
	rest := token
	if len(rest) > 0 && rest[0] == '-' {
		rest = rest[1:]
	}
	whole := digits(rest)
	if whole == 0 || whole > 1 && rest[0] == '0' {
		return false
	}
	rest = rest[whole:]
	if len(rest) > 0 && rest[0] == '.' {
		fraction := digits(rest[1:])
		if fraction == 0 {
			return false
		}
		rest = rest[1+fraction:]
	}
	if len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		exponent := digits(rest)
		return exponent > 0 && exponent == len(rest)
	}
	return len(rest) == 0
}

// digits returns how many digits come first.
func digits(text []byte) int {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}
