// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"fmt"
	"strings"
	"testing"
)

func TestBufferKeepsLastLines(t *testing.T) {
	var b Buffer
	for i := range 2 * MaxLines {
		b.Add(fmt.Appendf(nil, "li"))
		b.Add(fmt.Appendf(nil, "ne %d\n\n", i))
	}
	b.Add([]byte(strings.Repeat("x", 2*maxPending)))
	b.EndLine()
	lines := strings.Split(b.String(), "\n")
	if len(lines) != MaxLines || lines[0] != fmt.Sprintf("line %d", MaxLines+1) {
		t.Errorf("the lines are %q", lines)
	}
	if last := lines[MaxLines-1]; last != strings.Repeat("x", MaxLineBytes)+"..." {
		t.Errorf("the last line has %d bytes: %q", len(last), last)
	}
}
