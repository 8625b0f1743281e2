// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// capture is what an OutputReader makes of a text.
type capture struct {
	log     strings.Builder
	outputs map[string]string
	err     error
}

func (c *capture) String() string {
	return fmt.Sprintf("log %q outputs %q error %v", &c.log, c.outputs, c.err)
}

func granted(context.Context) error { return nil }

// feed gives the text in pieces of a size.
func (c *capture) feed(text string, size int) {
	outputs := NewOutputs(context.Background(), granted)
	reader := outputs.Reader(0, func(piece []byte) { c.log.Write(piece) })
	for len(text) > 0 {
		n := min(size, len(text))
		// What was written may be overwritten.
		piece := []byte(text[:n])
		_, _ = reader.Write(piece)
		clear(piece)
		text = text[n:]
	}
	c.err, c.outputs = reader.Close(), outputs.Values()
}

func output(key, value string) string {
	return fmt.Sprintf("###Phase-output###: {%q:%q,%q:%q}", "key", key, "value", value)
}

func TestTheOutputOfAPhase(t *testing.T) {
	long := strings.Repeat("v", 70000)
	for is, test := range map[string]struct {
		text, log string
		want      map[string]string
	}{
		"nothing where nothing is printed":       {"", "", nil},
		"nothing where only other text is":       {"a\nb\n", "ab", nil},
		"read among other text":                  {"a\n" + output("k", "v") + "\nb", "ab", map[string]string{"k": "v"}},
		"read after other text on its line":      {"info: " + output("k", "v") + "\n", "info: ", map[string]string{"k": "v"}},
		"read from a last line without an end":   {output("k", "v"), "", map[string]string{"k": "v"}},
		"the last value of a key":                {output("k", "v") + "\n" + output("j", "1") + "\n" + output("k", "w") + "\n", "", map[string]string{"k": "w", "j": "1"}},
		"read from lines that end like Windows'": {"a\r\n" + output("k", "v") + "\r\n", "a", map[string]string{"k": "v"}},
		"whole after a line of 100000 bytes":     {strings.Repeat("x", 100000) + "\n" + output("k", long), strings.Repeat("x", 100000), map[string]string{"k": long}},
		"found at the end of a long line":        {strings.Repeat("x", 100000) + output("k", "v"), strings.Repeat("x", 100000), map[string]string{"k": "v"}},
		"a value with the marker in it":          {output("k", outputMarker), "", map[string]string{"k": outputMarker}},
	} {
		t.Run(is, func(t *testing.T) {
			for _, size := range []int{1, 7, maxLogPiece - 1, maxLogPiece, maxLogPiece + 1, len(test.text) + 1} {
				got := &capture{}
				got.feed(test.text, size)
				if got.err != nil || got.log.String() != test.log {
					t.Errorf("in pieces of %d: %.300v", size, got)
				}
				if diff := cmp.Diff(test.want, got.outputs); diff != "" {
					t.Errorf("in pieces of %d: %.300s", size, diff)
				}
			}
		})
	}
}

func TestAnOutputIsFoundWhereverItsMarkerBegins(t *testing.T) {
	for before := 2*maxLogPiece - 2*len(outputMarker); before < 2*maxLogPiece+len(outputMarker); before++ {
		for _, size := range []int{maxLogPiece, 1 << 20} {
			got := &capture{}
			got.feed(strings.Repeat("x", before)+output("k", "v"), size)
			if got.err != nil || got.outputs["k"] != "v" || got.log.Len() != before {
				t.Fatalf("after %d bytes: %.300v", before, got)
			}
		}
	}
}

func TestAnOutputThatIsNoneFailsThePhase(t *testing.T) {
	for _, text := range []string{"not json", `{"key":"k","value":1}`, "", `{"key":"k","value":"v"} x`} {
		got := &capture{}
		got.feed(output("first", "kept")+"\n"+outputMarker+text+"\n"+output("k", "v"), 5)
		if got.err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		wantContains(t, got.err.Error(), "Failed to unmarshal key-value pair: ")
		if diff := cmp.Diff(map[string]string{"first": "kept"}, got.outputs); diff != "" {
			t.Error(diff)
		}
	}
}

func TestOutputsThatNoStatusCanHoldFailThePhase(t *testing.T) {
	half := strings.Repeat("v", maxOutputs/2)
	for of, text := range map[string]string{
		"several values":       output("a", half) + "\n" + output("b", half),
		"one value":            output("a", half+half),
		"one line without end": outputMarker + strings.Repeat(" ", maxOutputLine+1),
	} {
		got := &capture{}
		if got.feed(text, 4096); !errors.Is(got.err, ErrOutputTooLarge) {
			t.Errorf("%s: the error is %v", of, got.err)
		}
	}
	// Escaped characters count as what they stand for.
	escaped := &capture{}
	escaped.feed(outputMarker+`{"key":"k","value":"`+strings.Repeat(`\ud83d\ude00`, maxOutputs/4-1)+`"}`, 4096)
	if want := strings.Repeat("\U0001F600", maxOutputs/4-1); escaped.err != nil || escaped.outputs["k"] != want {
		t.Errorf("escaped characters: %.100v", escaped)
	}
	// What is replaced does not count.
	got := &capture{}
	if got.feed(strings.Repeat(output("a", half)+"\n", 10), 4096); got.err != nil {
		t.Error(got.err)
	}
}

func TestALineWithoutAnEndTakesLittleMemory(t *testing.T) {
	reader := NewOutputs(t.Context(), granted).Reader(0, func(piece []byte) {
		if len(piece) > 2*maxLogPiece {
			t.Fatalf("%d bytes are logged in one piece", len(piece))
		}
	})
	piece := []byte(strings.Repeat("x", 64<<10))
	for range 1000 {
		if _, err := reader.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if cap(reader.line) > 4*maxLogPiece {
		t.Errorf("%d bytes are held", cap(reader.line))
	}
}

func TestRereadKeepsOutputs(t *testing.T) {
	var logged []string
	outputs := NewOutputs(t.Context(), granted)
	reader := outputs.Reader(0, func(piece []byte) { logged = append(logged, string(piece)) })
	for _, text := range []string{
		outputMarker + `{"key":"a","value":"1"}` + "\n" + outputMarker + `{"key":"b","va`,
		"cut he",
		outputMarker + `{"key":"b","value":"2"}` + "\nwhole",
	} {
		reader.Restart()
		if _, err := reader.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, outputs.Values()); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"whole"}, logged); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
}
