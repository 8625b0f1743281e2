// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"text/template"
)

// comparisons are the engine's own functions that take as long as their arguments are, with the same results, but paid. Unlike the
// engine's they put no values into errors.
func comparisons(b *Budget) template.FuncMap {
	c := comparer{b}
	return template.FuncMap{"eq": c.eq, "ne": c.ne, "lt": c.lt, "le": c.le, "gt": c.gt, "ge": c.ge, "index": c.index}
}

type comparer struct{ *Budget }

var (
	errNoComparison      = errors.New("missing argument for comparison")
	errBadComparisonType = errors.New("invalid type for comparison")
)

// basic is a value of one of the kinds that can be compared: a bool, an int64, a uint64, a float64 or a string. Else it is nil.
func basic(of any) any {
	switch value := reflect.ValueOf(of); {
	case value.Kind() == reflect.Bool:
		return value.Bool()
	case value.CanInt():
		return value.Int()
	case value.CanUint():
		return value.Uint()
	case value.CanFloat():
		return value.Float()
	case value.Kind() == reflect.String:
		return value.String()
	default:
		return nil
	}
}

// eq reports whether the first argument equals any of the others.
func (c comparer) eq(first any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, errNoComparison
	}
	for _, other := range others {
		if equal, err := c.equal(first, other); equal || err != nil {
			return equal, err
		}
	}
	return false, nil
}

func (c comparer) equal(a, b any) (bool, error) {
	x, y := basic(a), basic(b)
	if err := c.pay(callCost + min(length(reflect.ValueOf(x)), length(reflect.ValueOf(y)))/4); err != nil {
		return false, err
	}
	if order, comparable := numbers(x, y); comparable {
		return order == 0, nil
	}
	of, than := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x != nil && y != nil && reflect.TypeOf(x) == reflect.TypeOf(y):
		return x == y, nil
	case !of.IsValid() || !than.IsValid():
		return isNil(of) && isNil(than), nil
	case x != nil || y != nil:
		return false, fmt.Errorf("incompatible types for comparison: %v and %v", of.Type(), than.Type())
	case of.Kind() != than.Kind():
		return false, fmt.Errorf("non-comparable types %v and %v", of.Type(), than.Type())
	case isNil(of) || isNil(than):
		return isNil(of) && isNil(than), nil
	case !than.Type().Comparable():
		return false, fmt.Errorf("non-comparable type %v", than.Type())
	}
	t, err := c.tally(of, than)
	if err == nil {
		err = c.pay(t.compared())
	}
	return err == nil && a == b, err
}

// numbers compares two that are whole, with a sign or without.
func numbers(x, y any) (order int, comparable bool) {
	switch x := x.(type) {
	case int64:
		switch y := y.(type) {
		case int64:
			return cmp.Compare(x, y), true
		case uint64:
			if x < 0 {
				return -1, true
			}
			return cmp.Compare(uint64(x), y), true
		}
	case uint64:
		switch y := y.(type) {
		case uint64:
			return cmp.Compare(x, y), true
		case int64:
			if y < 0 {
				return 1, true
			}
			return cmp.Compare(x, uint64(y)), true
		}
	}
	return 0, false
}

func isNil(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Map, reflect.Pointer, reflect.Slice, reflect.Func, reflect.Chan, reflect.Interface:
		return value.IsNil()
	default:
		return false
	}
}

func (c comparer) ne(a, b any) (bool, error) {
	equal, err := c.equal(a, b)
	return err == nil && !equal, err
}

func (c comparer) lt(a, b any) (bool, error) {
	x, y := basic(a), basic(b)
	if err := c.pay(callCost + min(length(reflect.ValueOf(x)), length(reflect.ValueOf(y)))/4); err != nil {
		return false, err
	}
	if order, comparable := numbers(x, y); comparable {
		return order < 0, nil
	}
	switch x := x.(type) {
	case float64:
		if y, same := y.(float64); same {
			return x < y, nil
		}
	case string:
		if y, same := y.(string); same {
			return x < y, nil
		}
	}
	if x == nil || y == nil || reflect.TypeOf(x) == reflect.TypeOf(y) {
		return false, errBadComparisonType
	}
	return false, fmt.Errorf("incompatible types for comparison: %T and %T", a, b)
}

func (c comparer) le(a, b any) (bool, error) {
	if less, err := c.lt(a, b); less || err != nil {
		return less, err
	}
	return c.equal(a, b)
}

func (c comparer) gt(a, b any) (bool, error) {
	lessOrEqual, err := c.le(a, b)
	return err == nil && !lessOrEqual, err
}

func (c comparer) ge(a, b any) (bool, error) {
	less, err := c.lt(a, b)
	return err == nil && !less, err
}

// index is x[1]["two"] of index x 1 "two". What a map does not have is the zero value of its kind.
func (c comparer) index(item any, indexes ...any) (any, error) {
	value := reflect.ValueOf(item)
	if !value.IsValid() {
		return nil, errors.New("index of untyped nil")
	}
	for _, key := range indexes {
		if err := c.pay(callCost + length(reflect.ValueOf(key))/4); err != nil {
			return nil, err
		}
		for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
			if value.IsNil() {
				return nil, errors.New("index of nil pointer")
			}
			value = value.Elem()
		}
		var err error
		if value, err = indexed(value, reflect.ValueOf(key)); err != nil {
			return nil, err
		}
	}
	return value.Interface(), nil
}

func indexed(value, key reflect.Value) (reflect.Value, error) {
	switch value.Kind() {
	case reflect.Array, reflect.Slice, reflect.String:
		at, err := position(key)
		if err == nil && (at < 0 || at >= int64(value.Len())) {
			err = fmt.Errorf("index out of range: %d", at)
		}
		if err != nil {
			return value, err
		}
		return value.Index(int(at)), nil
	case reflect.Map:
		of := value.Type().Key()
		switch {
		case !key.IsValid():
			return value, fmt.Errorf("value is nil; should be of type %s", of)
		case !key.Type().AssignableTo(of):
			return value, fmt.Errorf("value has type %s; should be %s", key.Type(), of)
		}
		if found := value.MapIndex(key); found.IsValid() {
			return found, nil
		}
		return reflect.Zero(value.Type().Elem()), nil
	default:
		return value, fmt.Errorf("can't index item of type %s", value.Type())
	}
}

// position returns the index in a list that a number stands for.
func position(key reflect.Value) (int64, error) {
	switch {
	case !key.IsValid():
		return 0, errors.New("cannot index slice/array with nil")
	case key.CanInt():
		return key.Int(), nil
	case key.CanUint():
		return int64(min(key.Uint(), 1<<62)), nil
	default:
		return 0, fmt.Errorf("cannot index slice/array with type %s", key.Type())
	}
}
