// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"millwright.dev/hack/bench/traffic"
)

var relatedChurn = scenario{
	name: "related-churn", about: "CPU of changes of ConfigMaps that the rule of one parent matches, and of none, with few parents and with many",
	size: 10000, quickSize: 500, once: true,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, customized(""), measureRelatedChurn) },
}

// relatedChurns are changes of ConfigMaps. Each has at most one parent whose rule matches it.
var relatedChurns = []struct {
	row       string
	remainder int // of the numbers of these ConfigMaps, divided by two
	goal      float64
}{
	{"CPU of a change that no rule of %d parents matches", 1, 0.05},
	{"CPU of a change that the rule of one of %d parents matches, with its sync", 0, 0.05 + 0.1}, // the goal of a sync is 0.1
}

// measureRelatedChurn has parents whose rules select by a label with their name. There is one watch for all rules.
func measureRelatedChurn(ctx context.Context, h *hosting) error {
	err := h.createConfigMaps(ctx, 2*strays, nil, func(i int) map[string]string {
		return map[string]string{relatedLabel: []string{traffic.ObjectName(i / 2), "none"}[i%2]}
	})
	if err != nil {
		return err
	}
	existing := 0
	for _, number := range []int{fewParents, h.size} {
		if err := h.converge(ctx, existing, number-existing, parentSpec{Value: aValue, Labelled: true}); err != nil {
			return err
		}
		existing = number
		for _, c := range relatedChurns {
			// Of the same number of ConfigMaps each time: changes that follow each other closely are observed as one.
			rise, seconds, err := h.churn(ctx, fewParents, func(i int) string { return strayName(2*i + c.remainder) })
			if err != nil {
				return err
			}
			h.add(row{Name: fmt.Sprintf(c.row, number), Unit: milliseconds, Goal: c.goal}, milli*rise[cpuSeconds]/strayChanges,
				"%d changes in %.1f s, %.0f syncs", strayChanges, seconds, rise[hookAnswers])
		}
	}
	return nil
}
