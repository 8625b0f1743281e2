// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Counts are the numbers of requests by what they are about.
type Counts struct {
	// Kinds has the number of requests of each kind: "create pods".
	Kinds map[string]int
	// Objects has the kinds of each object's requests, in the order in which they were answered.
	Objects map[string][]string
	// Others is the number of requests that are about no object, or about many.
	Others int
	// Failed is the number of those that the API server refused. They count like the rest.
	Failed int
}

// Count the requests.
func Count(requests []Request) Counts {
	c := Counts{Kinds: map[string]int{}, Objects: map[string][]string{}}
	for _, r := range requests {
		c.Kinds[r.Kind()]++
		if r.Code >= 300 {
			c.Failed++
		}
		if r.Object == "" {
			c.Others++
			continue
		}
		c.Objects[r.Object] = append(c.Objects[r.Object], r.Kind())
	}
	return c
}

// Most returns an object that took most requests, and what they were. There is none without requests.
func (c Counts) Most() (object string, kinds []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Objects)) {
		if len(c.Objects[name]) > len(kinds) {
			object, kinds = name, c.Objects[name]
		}
	}
	return object, kinds
}

// Above returns how many objects took more requests than so many.
func (c Counts) Above(limit int) (objects int) {
	for _, kinds := range c.Objects {
		if len(kinds) > limit {
			objects++
		}
	}
	return objects
}

// Mean is the number of all requests divided by the number of objects, those that took none included.
func (c Counts) Mean(objects int) float64 {
	total := c.Others
	for _, kinds := range c.Objects {
		total += len(kinds)
	}
	return float64(total) / float64(objects)
}

// String lists the kinds, the most frequent first: "2000 update immortalcontainers/status, 1000 create pods".
func (c Counts) String() string {
	text := listed(c.Kinds)
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d of them refused", c.Failed)
	}
	return text
}

// Summary of the kinds of an object's requests, likewise.
func Summary(kinds []string) string {
	counts := map[string]int{}
	for _, kind := range kinds {
		counts[kind]++
	}
	return listed(counts)
}

func listed(counts map[string]int) string {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return strings.Join(parts, ", ")
}
