// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"sync"
	"time"

	"millwright.dev/pkg/inflight"
)

// What may be paid from one Budget. A unit of work is about 10 ns of a CPU, or 4 bytes of memory, whichever is more: what a Budget pays
// for takes about 200 ms at most, and 64 MiB. Ordinary templates need less than a thousandth of it. BenchmarkTheMostExpensiveTemplates
// measures what a unit takes.
const (
	maxWork = 16 << 20
	// maxWall is how long rendering may take in one turn where the process gets too little CPU.
	maxWall = time.Minute
	// checkEvery is after how many units the context is looked at again.
	checkEvery = 64 << 10
	// freeWork is what may be paid from a Budget before it needs a place among maxConcurrent, where all data is small.
	freeWork = maxWork / 64
	// maxConcurrent is how many Budgets of a process with the memory limit of the shipped Deployment have their turn at one time: together they bound the
	// memory that templates take.
	maxConcurrent = 2

	// maxOutput is the most text that all templates of one Renderer give, in bytes. More would fit into no object of the API server.
	maxOutput = 1 << 20
	// maxSource is the most that is parsed as one template, in bytes.
	maxSource = 128 << 10
	// maxDepth is how deeply a value may be nested. One that refers to itself has no end.
	maxDepth = 100
	// maxNesting is how deeply blocks and parentheses of a template may be nested, and templates call each other.
	maxNesting = 100
)

var (
	errWork    = errors.New("TemplateTooExpensive: the template takes too many steps, or makes values that are too large")
	errOutput  = fmt.Errorf("the rendered text is longer than %d bytes", maxOutput)
	errDepth   = fmt.Errorf("a value is nested more than %d deep, or contains itself", maxDepth)
	errNesting = fmt.Errorf("blocks or parentheses are nested more than %d deep, or templates call each other so deeply", maxNesting)
	errStopped = errors.New("rendering was stopped")
)

// memoryOfNode and memoryOfMap are about how much memory a value takes, and a small map in addition, in bytes.
const memoryOfNode, memoryOfMap = 32, 240

// Budget is what rendering may cost: some templates together. It is not safe for concurrent use.
type Budget struct {
	// whole is the context of all turns, and ctx that of the turn.
	whole, ctx context.Context
	// left is what can still be paid, and unchecked what was paid since the context was last looked at.
	left, unchecked int
	// small: the Budget has its turn, and has not needed a place for it yet. end ends the turn.
	small bool
	end   func()
	// calls is how deeply templates call each other at the moment.
	calls int
	// patterns that were compiled, by their text.
	patterns map[string]*pattern
}

// NewBudget returns a full Budget. What it pays for is stopped when the context ends.
func NewBudget(ctx context.Context) *Budget {
	return &Budget{whole: ctx, ctx: ctx, left: maxWork, patterns: map[string]*pattern{}}
}

// places are taken by Budgets whose turn it is.
var places = sync.OnceValue(func() *inflight.Limit[struct{}] {
	return inflight.NewTotalLimit(inflight.AtMostForMemory(maxConcurrent))
})

// Turn returns when the Budget may be used, as few of a process are at one time; done gives the turn to the next one, and has to be
// called. What is rendered in one turn is stopped after a minute. The error is that of the context. Nothing else may be waited for in a
// turn. Where all data is small, it does not wait before more than freeWork is paid from the Budget: ordinary templates do not wait for expensive ones.
func (b *Budget) Turn(small bool) (done func(), err error) {
	if small {
		b.begin(func() {})
		b.small = true
	} else if err := b.takePlace(); err != nil {
		return nil, err
	}
	return b.done, nil
}

// done ends the turn.
func (b *Budget) done() {
	b.end()
	b.ctx, b.small = b.whole, false
}

// takePlace waits for a place, and begins a turn.
func (b *Budget) takePlace() error {
	release, err := places().Acquire(b.whole, struct{}{})
	if err != nil {
		return b.Stopped()
	}
	b.begin(release)
	return nil
}

// begin begins a turn. At its end release is called.
func (b *Budget) begin(release func()) {
	bounded, cancel := context.WithTimeout(b.whole, maxWall)
	b.ctx, b.small = bounded, false
	b.end = func() {
		cancel()
		release()
	}
}

// Stopped returns why rendering was stopped, if it was: that is no failure of the template, which may be rendered again.
func (b *Budget) Stopped() error {
	if b.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errStopped, context.Cause(b.ctx))
}

// Spent returns the part of the Budget that was used, from 0 to 1.
func (b *Budget) Spent() float64 { return float64(maxWork-b.left) / maxWork }

// PayForObject pays for an object that was read and decoded. It returns about how much memory the object takes, in bytes.
func (b *Budget) PayForObject(object map[string]any) (memory int, err error) {
	t, err := b.tally(reflect.ValueOf(object))
	if err == nil {
		err = b.pay(5*t.nodes + t.bytes/2)
	}
	return int(memoryOfNode*t.nodes + memoryOfMap*t.maps + t.bytes), err
}

// pay pays units of work, or returns errWork, which is final: nothing can be paid afterwards.
func (b *Budget) pay(cost float64) error {
	if math.IsNaN(cost) || cost > float64(b.left) {
		b.left = 0
		return errWork
	}
	paid := int(max(cost, 0)) + 1
	b.left = max(b.left-paid, 0)
	if b.small && maxWork-b.left > freeWork {
		b.end()
		if err := b.takePlace(); err != nil {
			return err
		}
	}
	if b.unchecked += paid; b.unchecked >= checkEvery {
		b.unchecked = 0
		runtime.Gosched() // expensive templates do not delay what else this process does
		return b.Stopped()
	}
	return nil
}

// enter and leave a template that was called.
func (b *Budget) enter() error {
	if b.calls++; b.calls > maxNesting {
		return errNesting
	}
	return nil
}

func (b *Budget) leave() { b.calls-- }

// limitedBuilder collects text up to a limit, in bytes.
type limitedBuilder struct {
	text []byte
	left int
}

func (w *limitedBuilder) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errOutput
	}
	w.left -= len(p)
	w.text = append(w.text, p...)
	return len(p), nil
}
