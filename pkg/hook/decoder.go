// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"millwright.dev/pkg/jsonscan"
)

// decoder reads one answer.
type decoder struct {
	scanner
	rules    Rules
	unknowns []string
	warnings []string
	// recalled reports whether the children are those that were known. If not, they are learned.
	recalled bool
	learned  Known
}

func newDecoder(body []byte, rules Rules) *decoder {
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD")) // other readers of JSON tolerate it like that
	}
	return &decoder{scanner: scanner{Scanner: jsonscan.Scanner{Text: body}}, rules: rules}
}

// response takes the whole answer.
func (d *decoder) response(field func(key []byte) error) error {
	err := d.outermost(field)
	switch e := err.(type) {
	case nil:
	case *fault:
		return d.fail(e.reason, e)
	default:
		return d.fail(ReasonInvalidJSON, e)
	}
	if len(d.unknowns) > 0 && d.rules.Strict {
		what := d.unknowns[0]
		if len(d.unknowns) > 1 {
			what = "[" + strings.Join(d.unknowns, ", ") + "]"
		}
		return newError(ReasonUnknownField, "strict validation failed for %s webhookResponse (type: %s, mode: %s): %s", d.rules.Version, d.rules.Phase, Strict, shorten(what))
	}
	d.warnings = d.unknowns
	if d.rules.Known != nil && !d.recalled {
		*d.rules.Known = d.learned
	}
	return nil
}

func (d *decoder) outermost(field func(key []byte) error) error {
	if d.Space() != '{' {
		if _, err := d.value(); err != nil {
			return err
		}
		// Not even null, which a hook returns that forgets to return something: it would delete all children.
		return &fault{reason: ReasonInvalidResponse, text: "the response is no JSON object"}
	}
	err := d.object(field, func(key []byte) {
		d.note("duplicate", key)
	})
	if err != nil {
		return err
	}
	return d.End()
}

// maxNotes bounds how many unknown fields an error or a warning lists.
const maxNotes = 10

func (d *decoder) note(what string, key []byte) {
	if len(d.unknowns) < maxNotes {
		d.unknowns = append(d.unknowns, fmt.Sprintf("%s field %q", what, shorten(string(key))))
	}
}

func (d *decoder) unknown(key []byte) error {
	d.note("unknown", key)
	_, err := d.value()
	return err
}

func (d *decoder) fail(reason Reason, err error) error {
	return newError(reason, "can't unmarshal webhookResponse (version: %s, type: %s): %w", d.rules.Version, d.rules.Phase, err)
}

// wrong returns the error that the current value does not have the wanted type.
func (d *decoder) wrong(want string) error {
	got := "a number"
	switch d.Space() {
	case '{':
		got = "an object"
	case '[':
		got = "a list"
	case '"':
		got = "a string"
	case 't', 'f':
		got = "a boolean"
	case 'n':
		got = "null"
	}
	if _, err := d.value(); err != nil {
		return err
	}
	return &fault{reason: ReasonInvalidResponse, text: "is " + got + ", and must be " + want}
}

// null takes a null if it is the next value.
func (d *decoder) null() bool {
	return d.Space() == 'n' && d.Literal("null") == nil
}

// text takes a string and has it made; null is an empty one.
func (d *decoder) text(make func(text []byte) string) (string, error) {
	if d.null() {
		return "", nil
	}
	if d.Space() != '"' {
		return "", d.wrong("a string")
	}
	text, err := d.str()
	if err != nil {
		return "", err
	}
	return make(text), nil
}

func (d *decoder) boolean() (bool, error) {
	switch {
	case d.null():
		return false, nil
	case d.Space() == 't':
		return true, d.Literal("true")
	case d.Space() == 'f':
		return false, d.Literal("false")
	default:
		return false, d.wrong("a boolean")
	}
}

func (d *decoder) status() ([]byte, error) {
	if d.null() {
		return nil, nil
	}
	if d.Space() != '{' {
		return nil, d.wrong("an object")
	}
	return d.value()
}

func (d *decoder) resyncAfter() (time.Duration, error) {
	if d.null() {
		return 0, nil
	}
	if c := d.Space(); c != '-' && (c < '0' || c > '9') {
		return 0, d.wrong("a number")
	}
	number, err := d.value()
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		return 0, &fault{reason: ReasonInvalidResponse, text: "is out of range"}
	}
	return seconds2duration(seconds, maxResync), nil
}

func (d *decoder) changes() ([]Change, error) {
	if d.null() {
		return nil, nil
	}
	if d.Space() != '{' {
		return nil, d.wrong("an object of strings and nulls")
	}
	var found []Change
	err := d.object(func(key []byte) error {
		change := Change{Key: string(key), Remove: d.null()}
		var err error
		if !change.Remove {
			change.Value, err = d.text(newString)
		}
		found = append(found, change)
		return err
	}, nil)
	slices.SortFunc(found, func(a, b Change) int { return cmp.Compare(a.Key, b.Key) })
	return found, err
}

// objects takes a list of objects, or null for an empty one.
func (d *decoder) objects() ([][]byte, error) {
	if d.null() {
		return nil, nil
	}
	if d.Space() != '[' {
		return nil, d.wrong("a list of objects")
	}
	var found [][]byte
	err := d.array(func() error {
		if d.Space() != '{' {
			return d.wrong("an object")
		}
		object, err := d.value()
		found = append(found, object)
		return err
	})
	return found, err
}
