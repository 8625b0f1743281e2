// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "context"

var compositeStart = scenario{
	name: "composite-start", about: "cold start of parents with one child each, over the bare client",
	size: 1000, quickSize: 50,
	measure: func(ctx context.Context, t *turn) error {
		return t.host(ctx, composite(""), func(ctx context.Context, h *hosting) error { return t.contest(ctx, parentWorkload(h.stage)) })
	},
}

// parentWorkload has parents with these labels in namespaces of its own.
func parentWorkload(labels map[string]string) *workload {
	return &workload{
		resource: parentResource,
		create: func(ctx context.Context, n *namespace, name string) error {
			return n.createParent(ctx, name, labels, parentSpec{Children: 1, Value: aValue})
		},
		observe: func(ctx context.Context, n *namespace, o *observer) error {
			if err := n.observeParents(ctx, o, statusOf); err != nil {
				return err
			}
			return o.followEvents(ctx, n, parentKind)
		},
		phases: []phase{{
			name: "cold start", reached: milestone{parentsKind, aValue}, events: 1,
			requests: 3, // child, status, event
		}},
		flags:          flagsOf(compositeName),
		workers:        parentsInParallel,
		cpuPerSyncGoal: 1,
	}
}
