// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// What is decoded takes about as much memory as estimated: at most a third more, and not much less if it is like the objects that users make.
func TestDecodedMemory(t *testing.T) {
	list := func(element string, n int) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	var members []string
	for i := range 100_000 {
		members = append(members, fmt.Sprintf(`"k%05d":"v"`, i))
	}
	for name, test := range map[string]struct {
		text string
		most float64 // estimate by memory
	}{
		"a long text":      {`{"a":"` + strings.Repeat(`{[,:\"`, 300_000) + `"}`, 1.3}, // with escapes
		"small objects":    {list(`{"":0}`, 100_000), 1.5},
		"empty objects":    {list(`{}`, 200_000), 1.5},
		"small arrays":     {list(`[0]`, 300_000), 1.5},
		"small numbers":    {list(`1`, 500_000), 1.5},
		"numbers":          {list(`1000`, 300_000), 1.5},
		"texts":            {list(`"a"`, 300_000), 2},
		"many members":     {"{" + strings.Join(members, ",") + "}", 2},
		"nine members":     {list(`{"1":"v","2":"v","3":"v","4":"v","5":"v","6":"v","7":"v","8":"v","9":"v"}`, 15_000), 2},
		"objects of users": {list(`{"name":"web","image":"web:1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}],"ready":true,"restartCount":3}`, 10_000), 2},
	} {
		estimate := DecodedMemory([]byte(test.text))
		before := allocated()
		var decoded any
		if err := json.Unmarshal([]byte(test.text), &decoded); err != nil {
			t.Fatal(err)
		}
		memory := allocated() - before
		runtime.KeepAlive(decoded)
		if by := float64(estimate) / float64(memory); by < 0.75 || by > test.most {
			t.Errorf("%s: %d bytes of JSON take %d bytes, and the estimate is %d: %.2f times as much, want 0.75 to %.1f", name, len(test.text), memory, estimate, by, test.most)
		}
	}
	for _, text := range []string{"", `"`, `"\`, `{"a`, `[1,`} {
		if estimate := DecodedMemory([]byte(text)); estimate < len(text) || estimate > len(text)+1000 {
			t.Errorf("%q: got %d", text, estimate)
		}
	}
}

// allocated returns how many bytes of the heap are in use.
func allocated() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
