// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"reflect"
	"time"
)

const (
	// nodeCost and entryCost are what it costs to look at a value, and at an entry of a map in addition to its key and its value.
	nodeCost, entryCost = 8, 24
)

// tally is how much there is in values, with all that can be reached from them.
type tally struct {
	// nodes are values, maps the maps among them that are not empty, and bytes those of texts.
	nodes, maps, bytes float64
	// depths are the sum of how deep the nodes are.
	depths float64
	// longest is the length of the longest text.
	longest float64
}

// tally pays for looking at all that can be reached from the values, which from then on can be walked: they have an end.
func (b *Budget) tally(values ...reflect.Value) (t tally, err error) {
	for _, value := range values {
		if err := b.walk(value, 0, &t); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (b *Budget) walk(value reflect.Value, depth int, t *tally) error {
	if depth > maxDepth {
		return errDepth
	}
	if err := b.pay(nodeCost); err != nil || !value.IsValid() {
		return err
	}
	t.nodes++
	t.depths += float64(depth)
	switch value.Kind() {
	case reflect.String:
		t.text(value.Len())
	case reflect.Interface, reflect.Pointer:
		if value.IsNil() {
			return nil
		}
		return b.walk(value.Elem(), depth+1, t)
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			t.text(value.Len())
			return nil
		}
		for i := range value.Len() {
			if err := b.walk(value.Index(i), depth+1, t); err != nil {
				return err
			}
		}
	case reflect.Map:
		if value.Len() > 0 {
			t.maps++
		}
		for entries := value.MapRange(); entries.Next(); {
			if err := b.pay(entryCost); err != nil {
				return err
			}
			if err := b.walk(entries.Key(), depth+1, t); err != nil {
				return err
			}
			if err := b.walk(entries.Value(), depth+1, t); err != nil {
				return err
			}
		}
	case reflect.Struct:
		// A time leads to its zone, which is not the template's.
		if value.Type() == reflect.TypeFor[time.Time]() {
			return nil
		}
		for i := range value.NumField() {
			if err := b.walk(value.Field(i), depth+1, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tally) text(length int) {
	t.bytes += float64(length)
	t.longest = max(t.longest, float64(length))
}

// printed is what it costs to print what was tallied once, with the text that it gives: maps are sorted, and a byte that is none of a text
// takes up to four.
func (t tally) printed() float64 { return 40*t.nodes + 2*t.bytes }

// compared is what it costs to compare what was tallied with something else.
func (t tally) compared() float64 { return 20*t.nodes + t.bytes/4 }

// length of a text, a list or a map; else 0.
func length(value reflect.Value) float64 {
	switch value = inside(value); value.Kind() {
	case reflect.String, reflect.Slice, reflect.Array, reflect.Map:
		return float64(value.Len())
	default:
		return 0
	}
}

// inside is what an interface holds.
func inside(value reflect.Value) reflect.Value {
	if value.Kind() == reflect.Interface {
		return value.Elem()
	}
	return value
}
