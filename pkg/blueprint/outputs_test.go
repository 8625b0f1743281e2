// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// printer is a container that prints to Outputs.
type printer struct {
	*OutputReader
	t *testing.T
}

func (o *Outputs) container(t *testing.T, index int) printer {
	return printer{o.Reader(index, func([]byte) {}), t}
}

func (p printer) prints(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		p.t.Errorf("printing %.100q: %v", text, err)
	}
}

func wantOutputs(t *testing.T, o *Outputs, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, o.Values()); diff != "" {
		t.Errorf("outputs (-want +got):\n%.500s", diff)
	}
}

func TestOutputOfLastContainerCounts(t *testing.T) {
	o := NewOutputs(t.Context(), granted)
	wantOutputs(t, o, nil)
	first, second, third := o.container(t, 0), o.container(t, 1), o.container(t, 2)
	third.prints(output("c", "3") + "\n")
	first.prints(output("a", "1") + "\n" + output("b", "1") + "\n" + output("c", "1") + "\n")
	second.prints(output("b", "2") + "\n" + output("c", "2") + "\n" + output("b", "2 again") + "\n")
	wantOutputs(t, o, map[string]string{"a": "1", "b": "2 again", "c": "3"})
}

// All containers of a phase together print at most what a status can hold.
func TestOutputsOfContainersTooLarge(t *testing.T) {
	half := strings.Repeat("v", maxOutputs/2)
	o := NewOutputs(t.Context(), granted)
	o.container(t, 0).prints(output("a", half) + "\n")
	o.container(t, 1).prints(output("a", half) + "\n") // replaces the first
	if _, err := io.WriteString(o.container(t, 2), output("b", half)+"\n"); !errors.Is(err, ErrOutputTooLarge) {
		t.Errorf("got error %v, want %v", err, ErrOutputTooLarge)
	}
	wantOutputs(t, o, map[string]string{"a": half})
}

// Outputs that take little memory do not ask for more. What was refused can be read again.
func TestOutputsGrow(t *testing.T) {
	small, large := strings.Repeat("v", smallOutputs-1), strings.Repeat("v", smallOutputs)
	for name, test := range map[string]struct {
		text   string
		asked  bool
		before map[string]string // the outputs without a grant
		after  map[string]string
	}{
		"short lines": {strings.Repeat(output("k", "v")+"\n", 10_000), false, map[string]string{"k": "v"}, map[string]string{"k": "v"}},
		"many small": {func() string {
			var text strings.Builder
			for i := range 4 {
				fmt.Fprintln(&text, output(fmt.Sprint(i), small[:10_000]))
			}
			return text.String()
		}(), true, map[string]string{"0": small[:10_000], "1": small[:10_000], "2": small[:10_000]}, nil},
		"a long line":          {"x\n" + output("a", "1") + "\n" + output("k", large) + "\n", true, map[string]string{"a": "1"}, map[string]string{"a": "1", "k": large}},
		"a long unended line":  {outputMarker + strings.Repeat(" ", smallOutputLine+1), true, nil, nil},
		"a long line of a log": {strings.Repeat("x", 10*smallOutputLine), false, nil, nil},
		"lines of blanks": {
			strings.Repeat(outputMarker+strings.Repeat(" ", smallOutputLine-100)+`{"key":"k","value":"v"}`+"\n", 10),
			false, map[string]string{"k": "v"}, map[string]string{"k": "v"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			refused := errors.New("no memory")
			asked, answer := 0, refused
			o := NewOutputs(t.Context(), func(context.Context) error { asked++; return answer })
			reader := o.Reader(0, func([]byte) {})
			_, err := io.WriteString(reader, test.text)
			if got := errors.Is(err, refused); got != test.asked || (asked > 0) != test.asked {
				t.Errorf("asked for memory %d times, error %v; want it asked: %t", asked, err, test.asked)
			}
			wantOutputs(t, o, test.before)
			answer = nil
			reader.Restart()
			if _, err := io.WriteString(reader, test.text); err != nil {
				t.Errorf("with memory: %v", err)
			}
			if test.after != nil {
				wantOutputs(t, o, test.after)
			}
		})
	}
}

// One reader at a time holds a long line. The others wait until it has ended, or was dropped.
func TestLongLinesInTurn(t *testing.T) {
	long := strings.Repeat("v", 3*smallOutputLine)
	for name, end := range map[string]func(printer){
		"ended":      func(c printer) { c.prints(`"}` + "\n") },
		"closed":     func(c printer) { _ = c.Close() },
		"restarted":  func(c printer) { c.Restart() },
		"invalid":    func(c printer) { _, _ = io.WriteString(c, "\n") },
		"too large":  func(c printer) { _, _ = io.WriteString(c, strings.Repeat(long, 100)) },
		"last value": func(c printer) { c.prints(`"}`); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOutputs(t.Context(), granted)
				first, second, third := o.container(t, 0), o.container(t, 1), o.container(t, 2)
				first.prints(outputMarker + `{"key":"first","value":"` + long)
				printed := false
				go func() {
					second.prints(output("second", long) + "\n")
					printed = true
				}()
				third.prints(output("third", "3") + "\n") // a short line does not wait
				synctest.Wait()
				if printed {
					t.Error("two readers hold a long line")
				}
				end(first)
				synctest.Wait()
				if !printed || o.Values()["second"] != long {
					t.Error("the second reader waits although the first holds no line")
				}
			})
		})
	}
}

// A reader that waits stops with the context.
func TestOutputsStopWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := NewOutputs(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		var ended atomic.Int32
		for i := range 3 {
			go func() {
				if _, err := io.WriteString(o.container(t, i), output("k", strings.Repeat("v", smallOutputs))); !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v, want %v", err, context.Canceled)
				}
				ended.Add(1)
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		if n := ended.Load(); n != 3 {
			t.Errorf("got %d readers that have stopped, want 3", n)
		}
	})
}
