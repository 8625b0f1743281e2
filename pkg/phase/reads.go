// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"
	"sync/atomic"
	"time"
)

// Reads are requests that read objects: their number, and about how much memory their answers take when they are decoded, in bytes. An expensive
// request may count as several.
type Reads struct{ Requests, Memory atomic.Int64 }

const (
	// cpuOfRequest is about how long a request takes a CPU of the API server, and memoryOfSecond how many bytes of memory in answers take it a second: it
	// decodes and encodes each object, however little of it is used here. As measured with objects of many small values, which take the longest.
	cpuOfRequest   = time.Millisecond
	memoryOfSecond = 192 << 20
)

// CPU returns about how long they take a CPU of the API server.
func (r *Reads) CPU() time.Duration {
	return time.Duration(r.Requests.Load())*cpuOfRequest + time.Duration(float64(r.Memory.Load())/memoryOfSecond*float64(time.Second))
}

type readsKey struct{}

// CountReads returns a context, and the Reads with it: those of a client of [BoundObjects], and what [AddReads] adds.
func CountReads(ctx context.Context) (context.Context, *Reads) {
	reads := &Reads{}
	return context.WithValue(ctx, readsKey{}, reads), reads
}

// AddTo adds them to the Reads of the context, as AddReads does.
func (r *Reads) AddTo(ctx context.Context) {
	AddReads(ctx, int(r.Requests.Load()), int(r.Memory.Load()))
}

// AddReads adds to the Reads of the context. It does nothing if they are not counted.
func AddReads(ctx context.Context, requests, memory int) {
	if reads, ok := ctx.Value(readsKey{}).(*Reads); ok {
		reads.Requests.Add(int64(requests))
		reads.Memory.Add(int64(memory))
	}
}
