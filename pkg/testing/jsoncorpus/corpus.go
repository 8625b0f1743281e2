// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsoncorpus has the texts from which the fuzz tests of all packages that read JSON start: valid JSON, almost valid JSON, and
// what has broken a reader of JSON before.
package jsoncorpus

import "testing"

// Valid are JSON values.
var Valid = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0.5e+3`, `""`, `"a"`, `"\""`,
	` {"a" : [1, -0.5e+3, true, false, null, "x\u00e9\n\\\""]} `,
	`{"a":1,"b":[true,false,null,-1.5e+3],"c":{"d":"}]\"\\"},"e":""}`,
	" {\t\"a\" :\n[ 1 , { } ] , \"b\":\"\\\\\" } ",
	`{"a":{"a":{"a":[[[[]]]]}}}`, `{"a":{"b":[{}]}}`, `{"":{"":1,"":2}}`,
	`{"ü\u2028":"\ud83e\udd99"}`, `"\ud800"`, `{"\ud800":1}`, "\"\xff\"", // a lone surrogate and invalid UTF-8 are valid
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":[1,-2.5e+3,"x\n\u00e9",true,null],"b":{}}`,
	`{"apiVersion":"v1","kind":"X","metadata":null}`,
	`{"kind":"X","apiVersion":"v1","metadata":{"labels":null,"ownerReferences":[null,{}],"name":7}}`,
	`{"a":[1,2 , {}],"apiVersion":"v1","kind":"X"}`,
}

// Invalid are texts that are not JSON.
var Invalid = []string{
	``, ` `, `{`, `}`, `[`, `]`, `"`, `"\`, `"\x"`, `"\u12`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"\x01\"", `'a'`,
	`01`, `-`, `+1`, `1.`, `.5`, `1e`, `1e+`, `0x1`, `1..2`, `tru`, `truee`, `nul`, `NaN`, `Infinity`,
	`{"a"}`, `{"a"`, `{"a":`, `{"a":1`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{1:1}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":1]`, `{"a":1:2}`,
	`[1,]`, `[,1]`, `[1 2]`, `[1}`, `[1:2]`, `1 2`, `{} {}`, `{"items":[{}`, `{"items":[1 2]}`, "\ufeff{}",
}

// Add adds all texts to the seeds of a fuzz test.
func Add(f *testing.F) {
	for _, texts := range [][]string{Valid, Invalid} {
		for _, text := range texts {
			f.Add([]byte(text))
		}
	}
}
