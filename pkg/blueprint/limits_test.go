// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// maxAllocated is what a Budget may allocate in all, in bytes: 64 MiB, and as much for what is not counted.
const maxAllocated = 128 << 20

// renderBomb fails the test where more memory is allocated than this part of a Budget may allocate.
func renderBomb(t *testing.T, source string, part int) error {
	t.Helper()
	b := NewBudget(t.Context())
	b.left /= part
	r, err := NewRenderer(b, testParams())
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rendered, err := r.Args("p", Function{}, map[string]any{"a": source})
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > uint64(allocationFactor*maxAllocated/part) {
		t.Errorf("%s took %d MiB", shorten(source, 2000), used>>20)
	}
	if err == nil && len(rendered["a"].(string)) > maxOutput {
		t.Errorf("%s gave %d bytes", shorten(source, 2000), len(rendered["a"].(string)))
	}
	return err
}

func TestHostileTemplates(t *testing.T) {
	for does, bomb := range bombs {
		t.Run(does, func(t *testing.T) {
			part := 1
			if errors.Is(bomb.limit, errWork) {
				part = 8 // what is too expensive is so of a part of the Budget, too, and the test takes as much less time
			}
			if err := renderBomb(t, bomb.source, part); bomb.limit != nil && !errors.Is(err, bomb.limit) {
				t.Errorf("the error is %v, want %v", err, bomb.limit)
			}
		})
	}
}

func TestTheLimitsAreForAllArgumentsTogether(t *testing.T) {
	args := []any{}
	for range 100 {
		args = append(args, `{{ repeat 50000 "x" }}`)
	}
	if _, err := renderer(t, testParams()).Args("p", Function{}, map[string]any{"a": args}); !errors.Is(err, errOutput) {
		t.Errorf("the error is %v", err)
	}
}

func TestTheBudgetIsForAllTemplatesOfARenderer(t *testing.T) {
	r := renderer(t, testParams())
	var err error
	for range 1000 {
		if _, err = r.Texts("p", "objects.x", map[string]string{"name": `{{ range 5000 }}{{ end }}`}); err != nil {
			break
		}
	}
	if !errors.Is(err, errWork) {
		t.Errorf("the error is %v", err)
	}
}

func TestALargeHonestTemplateIsRendered(t *testing.T) {
	source := `{{ range $i := until 1000 }}{{ printf "%d: %s\n" $i (replace "a" "b" "banana") }}{{ end }}` + strings.Repeat("# a long script\n", 4000)
	got, err := render(t, testParams(), source)
	if err != nil || !strings.Contains(got, "999: bbnbnb") {
		t.Error(err)
	}
}

// What an object takes is estimated: it is no less than half of it, and no more than three times as much. It is paid for.
func TestPayForObject(t *testing.T) {
	text := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	var many, lists strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&many, `"k%d":"","f:k%d":{},`, i, i)
		lists.WriteString(`{},[],`)
	}
	for name, content := range map[string]string{"text": text, "entries": `{` + many.String() + `"a":1}`, "lists": `{"a":[` + lists.String() + `1]}`,
		"maps": `{"a":[` + strings.Repeat(`{"":0},`, 50_000) + `1]}`} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var object map[string]any
			if err := json.Unmarshal([]byte(content), &object); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			taken := int(after.HeapAlloc) - int(before.HeapAlloc)
			b := NewBudget(t.Context())
			memory, err := b.PayForObject(object)
			if err != nil || memory < taken/2 || memory > 3*taken {
				t.Errorf("got %d bytes, %v; it takes %d", memory, err, taken)
			}
			if paid := b.Spent() * maxWork; paid < float64(len(content))/2 {
				t.Errorf("%.0f units were paid for %d bytes", paid, len(content))
			}
			runtime.KeepAlive(object)
		})
	}
}
