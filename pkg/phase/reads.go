// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"
	"sync/atomic"
)

// Reads are requests that read objects: their number, and about how much memory their answers take when they are decoded, in bytes. That is also a measure of
// how long they take the API server. An expensive request may count as several.
type Reads struct{ Requests, Memory atomic.Int64 }

type readsKey struct{}

// CountReads returns a context, and the Reads with it: those of a client of [BoundObjects], and what [AddReads] adds.
func CountReads(ctx context.Context) (context.Context, *Reads) {
	reads := &Reads{}
	return context.WithValue(ctx, readsKey{}, reads), reads
}

// AddReads adds to the Reads of the context. It does nothing if they are not counted.
func AddReads(ctx context.Context, requests, memory int) {
	if reads, ok := ctx.Value(readsKey{}).(*Reads); ok {
		reads.Requests.Add(int64(requests))
		reads.Memory.Add(int64(memory))
	}
}
