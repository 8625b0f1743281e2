// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"reflect"
	"text/template"
)

// priced makes every call of the functions pay its price before it is made.
func priced(functions template.FuncMap, b *Budget) template.FuncMap {
	wrapped := make(template.FuncMap, len(functions))
	for name, function := range functions {
		if cost, known := prices[name]; known {
			wrapped[name] = pay(reflect.ValueOf(function), cost, b)
		}
	}
	return wrapped
}

func pay(function reflect.Value, cost price, b *Budget) any {
	of := function.Type()
	in := make([]reflect.Type, of.NumIn())
	for i := range in {
		in[i] = of.In(i)
	}
	result, failure := of.Out(0), reflect.TypeFor[error]()
	call := function.Call
	if of.IsVariadic() {
		call = function.CallSlice
	}
	paid := func(args []reflect.Value) []reflect.Value {
		units, err := cost(b, args)
		if err == nil {
			err = b.pay(callCost + units)
		}
		if err != nil {
			return []reflect.Value{reflect.Zero(result), reflect.ValueOf(&err).Elem()}
		}
		results := call(args)
		if len(results) == 1 {
			results = append(results, reflect.Zero(failure))
		}
		return results
	}
	return reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{result, failure}, of.IsVariadic()), paid).Interface()
}
