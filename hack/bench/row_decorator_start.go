// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "context"

var decoratorStart = scenario{
	name: "decorator-start", about: "cold start of targets with one attachment and one label each, over the bare client",
	size: 1000, quickSize: 50,
	measure: func(ctx context.Context, t *turn) error {
		return t.host(ctx, decorator(), func(ctx context.Context, h *hosting) error { return t.contest(ctx, targetWorkload(h.stage)) })
	},
}

// targetWorkload is that of parents which are targets instead.
func targetWorkload(labels map[string]string) *workload {
	w := parentWorkload(labels)
	w.observe = func(ctx context.Context, n *namespace, o *observer) error {
		if err := n.observeParents(ctx, o, labelOf); err != nil {
			return err
		}
		return o.followEvents(ctx, n, parentKind)
	}
	w.phases = []phase{{
		name: "decoration", reached: milestone{parentsKind, aValue}, events: 1,
		requests: 3, // attachment, label, event
	}}
	w.flags = flagsOf(decoratorName)
	return w
}
