// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import "millwright.dev/pkg/jsonscan"

// What the parts of a body take in memory while an answer is decoded and followed, in bytes, at most: trees are made of it, children
// get a record of what was applied, and that is encoded again. Measured with Go 1.26 on 64 bits; a test of package parent compares
// them with what is allocated there.
const (
	weightOfByte = 5
	// weightOfEscape is that of a byte in a string that is written as six when it is encoded, and as seven in the record of what was applied.
	weightOfEscape = 28
	weightOfValue  = 48
	weightOfList   = 128
	weightOfObject = 736
	// weightOfEmpty is that of an empty list or object.
	weightOfEmpty = 64
	// weightOfLevel is that of one level of nesting: of stacks, which grow by doubling.
	weightOfLevel = 1024
)

// weigh estimates what a body takes in memory while an answer is decoded and followed, in bytes. It allocates nothing. In a body that is no
// JSON it counts at least as far as the decoder gets.
func weigh(body []byte) int64 {
	weight := int64(len(body)) * weightOfByte
	depth, deepest := 0, 0
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case '"':
			var escapes int64
			i, escapes = stringEnd(body, i+1)
			weight += escapes * weightOfEscape
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
			switch {
			case i+1 < len(body) && body[i+1] == c+2: // ASCII has the closing one two places further on
				weight += weightOfEmpty
			case c == '{':
				weight += weightOfObject
			default:
				weight += weightOfList
			}
		case '}', ']':
			depth--
		case ',', ':':
			weight += weightOfValue
		}
	}
	return weight + int64(min(deepest, jsonscan.MaxDepth))*weightOfLevel
}

// stringEnd returns where a string ends, and how many of its bytes are written as several when they are encoded.
func stringEnd(body []byte, from int) (end int, escapes int64) {
	for i := from; i < len(body); i++ {
		switch body[i] {
		case '"':
			return i, escapes
		case '\\':
			escapes++
			i++
		case '<', '>', '&':
			escapes++
		}
	}
	return len(body), escapes
}
