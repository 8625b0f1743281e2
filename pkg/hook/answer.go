// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"hash/maphash"
	"io"
	"net/http"
	"sync"
)

// Answer is what a hook said, not decoded yet.
type Answer struct {
	// Body must not be changed.
	Body []byte
	// Sum is equal for equal bodies, and different for different ones as far as 64 bits go. It holds for this process.
	Sum uint64
	// NotModified is that the hook said so, and that Body is from before.
	NotModified bool

	reusable bool // the body, for that of another answer
}

var sumSeed = maphash.MakeSeed()

const (
	// firstBody is how much room is made at once for a body that is announced as larger: it need not come.
	firstBody = 1 << 20
	// reusedBody is up to which size the room is kept for another body.
	reusedBody = 4 << 20
)

// bodies has the room of answers that were released, as *[]byte.
var bodies sync.Pool

// newBody returns room for a body of the announced size, which is below zero where it is not known.
func newBody(announced int64) []byte {
	if released, ok := bodies.Get().(*[]byte); ok {
		return (*released)[:0]
	}
	// One byte more, so that the end is found without growing.
	return make([]byte, 0, min(max(announced, 1<<10), firstBody)+1)
}

// Release lets another answer use the room of this one. It may be called by who uses neither the body nor anything decoded
// from it any more; who does not call it leaves it to the garbage collector. Where answers are mostly as last time, it saves
// most of what a call costs in memory.
func (a *Answer) Release() {
	if body := a.Body; a.reusable && cap(body) <= reusedBody {
		bodies.Put(&body)
	}
	*a = Answer{}
}

// clone returns an answer that is nobody else's.
func (a *Answer) clone() Answer {
	return Answer{Body: bytes.Clone(a.Body), Sum: a.Sum}
}

// readBody reads and sums up a body that is not too large.
func (h *Hook) readBody(response *http.Response) (*Answer, error) {
	limit := h.client.maxBody
	if response.ContentLength > limit {
		return nil, h.tooLarge()
	}
	body := newBody(response.ContentLength)
	var sum maphash.Hash
	sum.SetSeed(sumSeed)
	for {
		n, err := response.Body.Read(body[len(body):cap(body)])
		_, _ = sum.Write(body[len(body) : len(body)+n]) // never fails
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, h.tooLarge()
		case err == io.EOF:
			return &Answer{Body: body, Sum: sum.Sum64(), reusable: true}, nil
		case err != nil:
			return nil, newError(ReasonUnreachable, "can't read response body: %w", err)
		case len(body) == cap(body):
			body = append(body, 0)[:len(body)]
		}
	}
}

func (h *Hook) tooLarge() error {
	return newError(ReasonTooLarge, "%s hook %s: the response body has more than %d bytes", h.phase, h.URL(), h.client.maxBody)
}
