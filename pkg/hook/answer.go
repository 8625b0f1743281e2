// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"sync"
	"time"
)

// Answer is the answer of a hook, not decoded yet.
type Answer struct {
	// Body must not be changed.
	Body []byte
	// Sum is a 64-bit hash of the body. It is valid within this process.
	Sum uint64
	// NotModified reports whether the hook answered 304 or 412; Body is that of an earlier answer.
	NotModified bool

	reusable bool // the body, for that of another answer
	hook     *Hook
	share    *share // of the memory for answers
}

var sumSeed = maphash.MakeSeed()

const (
	// firstBody is the first allocation for a body that is announced as larger: less may arrive.
	firstBody = allowance / 2
	// reusedBody is the size up to which the memory is kept for another body.
	reusedBody = allowance

	// bodyPatience is how long a body that needs more than the allowance may take: other answers wait for its memory.
	bodyPatience = 30 * time.Second
	// decodingPatience is how long an answer waits for the memory for its decoding. A worker waits with it.
	decodingPatience = 2 * time.Second
)

// bodies has the memory of answers that were released, as *[]byte.
var bodies sync.Pool

// newBody returns memory for a body of the announced size, which is negative if it is not known.
func newBody(announced int64) []byte {
	if released, ok := bodies.Get().(*[]byte); ok {
		return (*released)[:0]
	}
	// One byte more, so that the end is found without growing.
	return make([]byte, 0, min(max(announced, 1<<10), firstBody)+1)
}

// Reserve waits for the memory that decoding and applying the answer takes, and holds it until the answer is released. Its error, an
// [*Error], is that this is more than one answer may take, or that other answers take all of it.
func (a *Answer) Reserve(ctx context.Context) error {
	weight := weigh(a.Body)
	switch err := a.share.grow(ctx, weight, decodingPatience); err {
	case nil:
		return nil
	case errTooMuch:
		return newError(ReasonTooLarge, "%s hook %s: decoding the response body of %d bytes takes up to %d bytes of memory, and one answer may take %d: answer with fewer or smaller children",
			a.hook.phase, a.hook.URL(), len(a.Body), weight, a.share.budget.most)
	default:
		return a.hook.noRoom(ctx, err)
	}
}

// Release releases the memory of the answer for another answer. It must be called for each answer, when neither the body nor anything decoded
// from it is used any more.
func (a *Answer) Release() {
	if body := a.Body; a.reusable && cap(body) <= reusedBody {
		bodies.Put(&body)
	}
	if a.share != nil {
		a.share.release()
	}
	*a = Answer{}
}

// clone returns a copy that shares nothing.
func (a *Answer) clone() Answer {
	return Answer{Body: bytes.Clone(a.Body), Sum: a.Sum}
}

// readBody reads and sums up a body that is not too large. cancel ends the reading.
func (h *Hook) readBody(ctx context.Context, cancel context.CancelCauseFunc, response *http.Response) (_ *Answer, err error) {
	limit := h.client.maxBody
	if response.ContentLength > limit {
		return nil, newError(ReasonTooLarge, "%s hook %s: the response body has %d bytes, and the limit is %d bytes", h.phase, h.URL(), response.ContentLength, limit)
	}
	answer := &Answer{hook: h, share: h.client.budget.share(), reusable: true}
	defer func() {
		if err != nil {
			answer.share.release()
		}
	}()
	body := newBody(response.ContentLength)
	if err := answer.share.grow(ctx, int64(cap(body)), h.timeout); err != nil {
		return nil, h.noRoom(ctx, err)
	}
	var sum maphash.Hash
	sum.SetSeed(sumSeed)
	var deadline *time.Timer
	defer func() {
		if deadline != nil {
			deadline.Stop()
		}
	}()
	for {
		n, err := response.Body.Read(body[len(body):cap(body)])
		_, _ = sum.Write(body[len(body) : len(body)+n]) // never fails
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, newError(ReasonTooLarge, "%s hook %s: the response body has more than %d bytes, which is the limit", h.phase, h.URL(), limit)
		case err == io.EOF:
			answer.Body, answer.Sum = body, sum.Sum64()
			return answer, nil
		case err != nil:
			return nil, newError(ReasonUnreachable, "can't read response body: %w", err)
		case len(body) == cap(body):
			had, room := int64(cap(body)), min(2*int64(cap(body)), limit+1)
			if deadline == nil && room > firstBody {
				deadline = time.AfterFunc(bodyPatience, func() { cancel(errSlowBody) })
			}
			if err := answer.share.grow(ctx, room, h.timeout); err != nil {
				return nil, h.noRoom(ctx, err)
			}
			body = append(make([]byte, 0, room), body...)
			answer.share.shrink(had)
		}
	}
}

// errSlowBody is why the reading of a large body ends before the timeout.
var errSlowBody = fmt.Errorf("a response body of more than %d bytes has to come within %s", firstBody, bodyPatience)

// noRoom returns the error if an answer gets no memory.
func (h *Hook) noRoom(ctx context.Context, err error) error {
	if err == errTooMuch { // limits of bodies are below
		return newError(ReasonTooLarge, "%s hook %s: the response body takes more memory than one answer may", h.phase, h.URL())
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
		err = cause
	}
	e := newError(ReasonNoMemory, "%s hook %s: waiting for memory: %w", h.phase, h.URL(), err)
	e.RetryAfter = probePatience
	return e
}
