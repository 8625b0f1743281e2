// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"math"
	"reflect"
)

// counted is the distance between the smallest and the largest number, zero among them.
func counted(_ *Budget, args []reflect.Value) (float64, error) {
	low, high := 0.0, 0.0
	each(args, func(arg reflect.Value) {
		if arg.CanInt() {
			low, high = min(low, float64(arg.Int())), max(high, float64(arg.Int()))
		}
	})
	return 60 * (high - low), nil
}

// copied is for new lists and maps with what is in others, which are copied so often while they grow.
func copied(times float64) price {
	return func(_ *Budget, args []reflect.Value) (float64, error) {
		total := 0.0
		for _, arg := range args {
			total += times * ofCopy(arg)
			if arg.Kind() != reflect.Slice { // a list that a template gives stands in an interface
				continue
			}
			for i := range arg.Len() {
				total += times * ofCopy(arg.Index(i))
			}
		}
		return total, nil
	}
}

// ofCopy is what it costs to copy a list or the entries of a map, without what is in them.
func ofCopy(value reflect.Value) float64 {
	switch value = inside(value); value.Kind() {
	case reflect.Map:
		return entryCost + 80*float64(value.Len())
	case reflect.Slice, reflect.Array:
		return 30 + 12*float64(value.Len())
	default:
		return 30 + length(value)
	}
}

// paired is for a map of keys and values; keys are printed.
func paired(b *Budget, args []reflect.Value) (float64, error) {
	total := 0.0
	for i := 0; i < args[0].Len(); i += 2 {
		t, err := b.tally(args[0].Index(i))
		if err != nil {
			return 0, err
		}
		total += 100 + t.printed()
	}
	return total, nil
}

// sliced is a list whose limits may be anything that is printed where it is no number.
func sliced(b *Budget, args []reflect.Value) (float64, error) { return printing(3)(b, args[1:]) }

// sorted compares texts so often as sorting takes.
func sorted(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args...)
	return 2*t.printed() + (10*t.nodes+t.bytes/8)*math.Log2(t.nodes+2), err
}

func comparing(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args...)
	return 2 * t.compared(), err
}

// comparingEach with each.
func comparingEach(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args...)
	others := length(args[0])
	if len(args) > 1 {
		others = length(args[1])
	}
	return (others + 2) * t.compared(), err
}

func copiedDeep(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args...)
	return 300*t.nodes + t.bytes, err
}

// exact is for decimal numbers that may grow with each step. What is no number is printed, and the text thrown away.
func exact(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args...)
	count := float64(len(args))
	if last := args[len(args)-1]; last.Kind() == reflect.Slice {
		count += float64(last.Len())
	}
	return 1000*count + 500*count*count + 3*t.printed(), err
}

// versions are read by regular expressions that are large.
func versions(_ *Budget, args []reflect.Value) (float64, error) {
	total := 5000.0
	for _, arg := range args {
		total += 500 * length(arg)
	}
	return total, nil
}

// each calls the function for the values, and for the elements of those that are lists.
func each(values []reflect.Value, do func(reflect.Value)) {
	for _, value := range values {
		value = inside(value)
		if value.Kind() != reflect.Slice && value.Kind() != reflect.Array {
			do(value)
			continue
		}
		for i := range value.Len() {
			do(inside(value.Index(i)))
		}
	}
}
