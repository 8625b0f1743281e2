// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"millwright.dev/hack/bench/traffic"
)

// relatedPerParent is the number of ConfigMaps that each parent is related to.
const relatedPerParent = 100

var relatedMemory = scenario{
	name: "related-memory", about: "memory of an operator that is started on related objects, over their JSON",
	size: 20000, quickSize: 1000, once: true,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, customized(""), measureRelatedMemory) },
}

func measureRelatedMemory(ctx context.Context, h *hosting) error {
	emptyHeap, emptyResident, err := h.held(ctx, 0)
	if err != nil {
		return err
	}
	data := map[string]string{}
	for i := range strayKeys {
		data[fmt.Sprintf("key-%02d", i)] = strings.Repeat("x", strayFilling)
	}
	err = h.createConfigMaps(ctx, h.size, data, func(i int) map[string]string {
		return map[string]string{relatedLabel: traffic.ObjectName(i / relatedPerParent)}
	})
	if err != nil {
		return err
	}
	parents := h.size / relatedPerParent
	if err := h.createParents(ctx, 0, parents, parentSpec{Value: aValue, Labelled: true}); err != nil {
		return err
	}
	number, size, err := h.sizeOfConfigMaps(ctx)
	if err != nil {
		return err
	}
	heap, rss, err := h.held(ctx, parents)
	if err != nil {
		return err
	}
	if _, err := h.seen.await(ctx, parents, milestone{callsKind, strconv.Itoa(relatedPerParent)}); err != nil {
		return err
	}
	h.add(row{Name: fmt.Sprintf("live heap for %d related objects, over their JSON", number), Unit: times, Goal: 1.2}, (heap-emptyHeap)/size,
		"%.1f MiB JSON; %.1f MiB, without objects %.1f MiB", size/mebi, heap/mebi, emptyHeap/mebi)
	h.add(row{Name: fmt.Sprintf("memory of the process for %d related objects, beyond that without them, over their JSON", number), Unit: times, Goal: 1.6, Most: 2.5},
		(rss-emptyResident)/size,
		"%.1f MiB, without objects %.1f MiB", rss/mebi, emptyResident/mebi)
	return nil
}
