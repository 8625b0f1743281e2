// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// What one call of a Renderer may cost. Each byte that goes into or comes out of a function costs one unit, and each turn of a
// loop stepCost: large scripts and objects stay far below, and what is above ends within a second or so.
const (
	maxWork  = 16 << 20
	stepCost = 32
	// maxOutput is the most text that all templates of one call give. More would fit into no object of the API server.
	maxOutput = 1 << 20
	// maxSource is the most that is parsed as one template.
	maxSource = 128 << 10
	// maxDepth is how deeply a value may be nested. One that refers to itself has no end.
	maxDepth = 100
	// callCost is what executing a template costs beside its steps: at most this many may call each other.
	callCost = maxWork / 4096
)

var (
	errWork   = errors.New("the template takes too many steps, or makes values that are too large")
	errOutput = fmt.Errorf("the rendered text is longer than %d bytes", maxOutput)
	errDepth  = fmt.Errorf("a value is nested more than %d deep, or contains itself", maxDepth)
)

// budget is what is left.
type budget struct{ work int }

func (b *budget) pay(cost int) error {
	if cost > b.work {
		b.work = 0
		return errWork
	}
	b.work -= cost
	return nil
}

// payFor pays for all that can be reached from the value, which from then on can be walked: it has an end.
func (b *budget) payFor(value reflect.Value) error { return b.walk(value, 0) }

func (b *budget) walk(value reflect.Value, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if err := b.pay(1); err != nil || !value.IsValid() {
		return err
	}
	switch value.Kind() {
	case reflect.String:
		return b.pay(value.Len())
	case reflect.Interface, reflect.Pointer:
		if value.IsNil() {
			return nil
		}
		return b.walk(value.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return b.pay(value.Len())
		}
		for i := range value.Len() {
			if err := b.walk(value.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			if err := b.walk(entries.Key(), depth+1); err != nil {
				return err
			}
			if err := b.walk(entries.Value(), depth+1); err != nil {
				return err
			}
		}
	case reflect.Struct:
		// A time leads to its zone, which is not the template's.
		if value.Type() == reflect.TypeFor[time.Time]() {
			return nil
		}
		for i := range value.NumField() {
			if err := b.walk(value.Field(i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// limitedBuilder collects text up to a limit.
type limitedBuilder struct {
	text []byte
	left int
}

func (w *limitedBuilder) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errOutput
	}
	w.left -= len(p)
	w.text = append(w.text, p...)
	return len(p), nil
}
