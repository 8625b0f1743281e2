// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
)

// deployment returns a Deployment of two containers as a hook desires it, and as the API server has it.
func deployment(tb testing.TB) (text []byte, observed, desired map[string]any) {
	tb.Helper()
	yaml, err := os.ReadFile("testdata/deployment.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	desired = tree(tb, string(yaml))
	yaml, err = os.ReadFile("testdata/deployment-observed.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	observed = tree(tb, string(yaml))
	if text, err = json.Marshal(desired); err != nil {
		tb.Fatal(err)
	}
	annotate(observed, string(text))
	return text, observed, desired
}

func TestANoOpAllocatesAlmostNothing(t *testing.T) {
	text, observed, desired := deployment(t)
	verdict, err := Update(observed, desired)
	if err != nil || verdict.Differs {
		t.Fatalf("differs: %v, %v", verdict.Differs, err)
	}
	// A tenth of the 1,192 of Metacontroller would be enough. The pools may be emptied at any time.
	if allocations := testing.AllocsPerRun(100, func() { _, _ = Update(observed, desired) }); allocations > 40 {
		t.Errorf("%v allocations for an update that changes nothing", allocations)
	}
	if allocations := testing.AllocsPerRun(100, func() { _, _ = Hash(text) }); allocations > 5 {
		t.Errorf("%v allocations for a hash", allocations)
	}
}

// BenchmarkUpdate is the merge of a Deployment of two containers.
func BenchmarkUpdate(b *testing.B) {
	b.Run("nothing differs", func(b *testing.B) {
		_, observed, desired := deployment(b)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = Update(observed, desired)
		}
	})
	b.Run("another client has changed an image", func(b *testing.B) {
		_, observed, desired := deployment(b)
		containers := observed["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
		containers[0].(map[string]any)["image"] = "other"
		b.ReportAllocs()
		for b.Loop() {
			_, _ = Update(observed, desired)
		}
	})
	b.Run("another image is desired", func(b *testing.B) {
		_, observed, desired := deployment(b)
		containers := desired["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
		containers[0].(map[string]any)["image"] = "other"
		b.ReportAllocs()
		for b.Loop() {
			_, _ = Update(observed, desired)
		}
	})
	b.Run("the record is written in another way", func(b *testing.B) {
		text, observed, desired := deployment(b)
		annotate(observed, " "+string(text))
		b.ReportAllocs()
		for b.Loop() {
			_, _ = Update(observed, desired)
		}
	})
}

// BenchmarkHash is what an unchanged child costs.
func BenchmarkHash(b *testing.B) {
	text, _, _ := deployment(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Hash(text)
	}
}

// BenchmarkMetacontroller is the same merge in the plainest way, with the copy and the record that it needs.
func BenchmarkMetacontroller(b *testing.B) {
	_, observed, desired := deployment(b)
	b.ReportAllocs()
	for b.Loop() {
		plainly(observed, desired)
	}
}
