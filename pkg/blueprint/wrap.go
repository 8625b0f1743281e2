// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"math"
	"reflect"
	"text/template"
)

// growth tells which functions give, or take the time of, more than what goes into them.
var growth = map[string]func(args []reflect.Value) float64{
	"until": span, "untilStep": span, "seq": span,
	"repeat": product, "indent": product, "nindent": product, "replace": product, "join": product,
	"wrap": product, "wrapWith": product, "printf": formatted,
	"omit": product, "pick": product, "pluck": product,
	"uniq": square, "mustUniq": square, "without": square, "mustWithout": square,
	"regexMatch": product, "mustRegexMatch": product, "regexFind": product, "mustRegexFind": product,
	"regexFindAll": product, "mustRegexFindAll": product, "regexSplit": product, "mustRegexSplit": product,
	"regexReplaceAll": product, "mustRegexReplaceAll": product,
	"regexReplaceAllLiteral": product, "mustRegexReplaceAllLiteral": product,
}

// wrap makes every call of the functions pay: before it for the arguments and for what they may grow to, then for the result.
func wrap(functions template.FuncMap, b *budget) template.FuncMap {
	wrapped := make(template.FuncMap, len(functions))
	for name, function := range functions {
		wrapped[name] = wrapOne(reflect.ValueOf(function), growth[name], b)
	}
	return wrapped
}

func wrapOne(function reflect.Value, grow func([]reflect.Value) float64, b *budget) any {
	of := function.Type()
	in := make([]reflect.Type, of.NumIn())
	for i := range in {
		in[i] = of.In(i)
	}
	result, failure := of.Out(0), reflect.TypeFor[error]()
	fail := func(err error) []reflect.Value {
		return []reflect.Value{reflect.Zero(result), reflect.ValueOf(&err).Elem()}
	}
	call := function.Call
	if of.IsVariadic() {
		call = function.CallSlice
	}
	charged := func(args []reflect.Value) []reflect.Value {
		for _, arg := range args {
			if err := b.payFor(arg); err != nil {
				return fail(err)
			}
		}
		if grow != nil {
			if err := b.pay(int(min(grow(args), maxWork+1))); err != nil {
				return fail(err)
			}
		}
		results := call(args)
		if err := b.payFor(results[0]); err != nil {
			return fail(err)
		}
		if len(results) == 1 {
			results = append(results, reflect.Zero(failure))
		}
		return results
	}
	return reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{result, failure}, of.IsVariadic()), charged).Interface()
}

// product is the product of the numbers and of the lengths of the texts and lists.
func product(args []reflect.Value) float64 {
	total := 1.0
	for _, arg := range args {
		total *= max(size(arg), 1)
	}
	return total
}

// square is for comparing each with each.
func square(args []reflect.Value) float64 {
	total := 1.0
	for _, arg := range args {
		total += size(arg)
	}
	return total * total
}

// span is the distance between the smallest and the largest number, zero among them.
func span(args []reflect.Value) float64 {
	low, high := 0.0, 0.0
	each(args, func(arg reflect.Value) {
		if arg.CanInt() {
			low, high = min(low, float64(arg.Int())), max(high, float64(arg.Int()))
		}
	})
	return high - low
}

// formatted is how wide a format makes its text at most: the sum of all numbers in the format, and of those that a * may take.
func formatted(args []reflect.Value) float64 {
	total, number := 0.0, 0.0
	for _, c := range args[0].String() + " " {
		if '0' <= c && c <= '9' {
			number = number*10 + float64(c-'0')
			continue
		}
		// fmt takes nothing wider than a million.
		total, number = total+min(number, 1e6), 0
		if c == '*' {
			total += 1e6
		}
	}
	return total
}

// size is the value of a number, else the length, of lists with the texts in them.
func size(value reflect.Value) float64 {
	total := 0.0
	switch value.Kind() {
	case reflect.String:
		return float64(value.Len())
	case reflect.Slice, reflect.Array:
		each([]reflect.Value{value}, func(element reflect.Value) { total += max(size(element), 1) })
	case reflect.Map:
		return float64(value.Len())
	case reflect.Interface:
		if !value.IsNil() {
			return size(value.Elem())
		}
	default:
		if value.CanInt() {
			return math.Abs(float64(value.Int()))
		}
	}
	return total
}

// each calls the function for the values, and for the elements of those that are lists.
func each(values []reflect.Value, do func(reflect.Value)) {
	for _, value := range values {
		if value.Kind() == reflect.Interface {
			value = value.Elem()
		}
		if value.Kind() != reflect.Slice && value.Kind() != reflect.Array {
			do(value)
			continue
		}
		for i := range value.Len() {
			element := value.Index(i)
			if element.Kind() == reflect.Interface {
				element = element.Elem()
			}
			do(element)
		}
	}
}
