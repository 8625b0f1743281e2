// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
)

// headerObject is an object whose header costs nothing, as in a cache.
type headerObject struct {
	text
	uid     types.UID
	version string
}

func (o headerObject) GetUID() types.UID          { return o.uid }
func (o headerObject) GetResourceVersion() string { return o.version }
func (headerObject) Deleting() bool               { return false }

// BenchmarkUnchangedChildren is one sync of a parent whose children are as desired, without what the hook costs: the answer is
// read, and nothing is to be done.
func BenchmarkUnchangedChildren(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, wrong := Compile(FromComposite(controllerWith()), served())
			if wrong != nil {
				b.Fatal(*wrong)
			}
			parent := parentWith("")
			selector, err := r.selectorOf(parent)
			if err != nil {
				b.Fatal(err)
			}
			var wanted []string
			o := observed{parent: parent, of: r.parents[0], selector: selector, children: map[childKey]object{}}
			for i := range n {
				wanted = append(wanted, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d","labels":{"app":"a"}},"data":{"k":%q}}`, i, strings.Repeat("x", 1000)))
				child := text(strings.Replace(wanted[i], `{"name"`, `{"namespace":"ns","name"`, 1))
				o.children[configMaps.key("ns", fmt.Sprint("m", i))] = headerObject{child, types.UID(fmt.Sprint(i)), "1"}
			}
			body := []byte(`{"status":{},"children":[` + strings.Join(wanted, ",") + `]}`)
			// The record of what was applied is missing, which is written once; a method that writes nothing settles that.
			r.children[0].method = "OnDelete"
			b.ReportAllocs()
			for b.Loop() {
				answer, err := r.decode(body, hook.Rules{Phase: "sync", Version: hook.V1}, parent)
				if err != nil {
					b.Fatal(err)
				}
				o.called, o.answer = phaseSync, answer
				p, err := r.decide(o, merge.Update)
				if err != nil || len(p.steps) > 0 {
					b.Fatal(p.steps, err)
				}
				o.history = p.history
			}
		})
	}
}
