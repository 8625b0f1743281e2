// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

// What parts of a value take in memory besides their text when they are decoded to an any, in bytes: a map, its first eight entries, a slice, an element or
// member, a member's key, and the header of a string.
const (
	memoryOfEmptyObject = 48
	memoryOfMembers     = 272
	memoryOfArray       = 32
	memoryOfElement     = 28
	memoryOfKey         = 16
	memoryOfString      = 16
)

// DecodedMemory returns about how much memory a value takes when it is decoded to an any, in bytes. That may be fifty times the size of its text. It does not
// validate the value.
func DecodedMemory(text []byte) int {
	bytes := len(text)
	for at := 0; at >= 0 && at < len(text); {
		switch text[at] {
		case '"':
			bytes += memoryOfString
			at = skipString(text, at)
			continue
		case '{':
			if bytes += memoryOfEmptyObject; at+1 < len(text) && text[at+1] != '}' {
				bytes += memoryOfMembers
			}
		case '[':
			bytes += memoryOfArray
		case ',':
			bytes += memoryOfElement
		case ':':
			bytes += memoryOfKey
		}
		at++
	}
	return bytes
}
