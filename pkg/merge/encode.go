// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"
)

// maxDepth limits how deep objects and lists may be nested. JSON decoders have the same limit.
const maxDepth = 10000

// encoder writes trees as encoding/json does, byte for byte: keys sorted, no spaces, <, > and & escaped. It allocates nothing
// once its buffers have grown.
type encoder struct {
	text []byte
	// keys is a stack: those of the object being written are on top.
	keys []string
}

var encoders = sync.Pool{New: func() any { return &encoder{} }}

// maxPooled is the size in bytes above which a buffer is left to the garbage collector.
const maxPooled = 1 << 20

func (e *encoder) release() {
	if cap(e.text) > maxPooled {
		return
	}
	clear(e.keys[:cap(e.keys)]) // they point into objects
	e.text, e.keys = e.text[:0], e.keys[:0]
	encoders.Put(e)
}

// encode appends the value without what the level keeps.
func (e *encoder) encode(at *level, value any, depth int) error {
	if depth > maxDepth {
		return &fieldError{problem: fmt.Sprintf("objects and lists are nested more than %d levels deep", maxDepth)}
	}
	switch value := value.(type) {
	case nil:
		e.text = append(e.text, "null"...)
	case bool:
		e.text = strconv.AppendBool(e.text, value)
	case int64:
		e.text = strconv.AppendInt(e.text, value, 10)
	case float64:
		return e.float(value)
	case string:
		e.string(value)
	case []any:
		return e.list(value, depth)
	case map[string]any:
		return e.object(at, value, depth)
	default:
		return &fieldError{problem: "this is " + kindOf(value) + ", which is no JSON value"}
	}
	return nil
}

func (e *encoder) object(at *level, object map[string]any, depth int) error {
	bottom := len(e.keys)
	for key := range object {
		if !at.keeps(key) {
			e.keys = append(e.keys, key)
		}
	}
	keys := e.keys[bottom:]
	slices.Sort(keys)
	e.text = append(e.text, '{')
	for i, key := range keys {
		if i > 0 {
			e.text = append(e.text, ',')
		}
		e.string(key)
		e.text = append(e.text, ':')
		if err := e.encode(at.under(key), object[key], depth+1); err != nil {
			return below(err, "."+key)
		}
	}
	e.text = append(e.text, '}')
	e.keys = e.keys[:bottom]
	return nil
}

func (e *encoder) list(list []any, depth int) error {
	e.text = append(e.text, '[')
	for i, element := range list {
		if i > 0 {
			e.text = append(e.text, ',')
		}
		if err := e.encode(nil, element, depth+1); err != nil {
			return below(err, "["+strconv.Itoa(i)+"]")
		}
	}
	e.text = append(e.text, ']')
	return nil
}

// float writes a number as JavaScript does.
func (e *encoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return &fieldError{problem: "this is no number that JSON has"}
	}
	format := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	e.text = strconv.AppendFloat(e.text, f, format, -1, 64)
	if n := len(e.text); format == 'e' && e.text[n-4] == 'e' && e.text[n-3] == '-' && e.text[n-2] == '0' {
		e.text = append(e.text[:n-2], e.text[n-1]) // e-09 is e-9
	}
	return nil
}

// string writes a string with the escapes for HTML and JavaScript.
func (e *encoder) string(s string) {
	const hex = "0123456789abcdef"
	e.text = append(e.text, '"')
	plain := 0 // the start of the text that is not copied yet
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
				i++
				continue
			}
			e.text = append(e.text, s[plain:i]...)
			switch c {
			case '"', '\\':
				e.text = append(e.text, '\\', c)
			case '\b':
				e.text = append(e.text, `\b`...)
			case '\f':
				e.text = append(e.text, `\f`...)
			case '\n':
				e.text = append(e.text, `\n`...)
			case '\r':
				e.text = append(e.text, `\r`...)
			case '\t':
				e.text = append(e.text, `\t`...)
			default:
				e.text = append(e.text, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			plain = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
			e.text = append(e.text, s[plain:i]...)
			e.text = append(e.text, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
			plain = i + size
		}
		i += size
	}
	e.text = append(append(e.text, s[plain:]...), '"')
}
