// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxFailures is how much of the failures of a command is kept, in bytes. The message of a failed phase has 16 KiB at most.
const maxFailures = 12 << 10

// failures are how a command has failed in its containers.
type failures struct {
	mu sync.Mutex
	// texts by the index of the container.
	texts map[int]string
	size  int
	// left is the number of failures that are not kept.
	left int
}

func (f *failures) add(container int, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.texts) > 0 && f.size+len(text) > maxFailures {
		f.left++
		return
	}
	if f.texts == nil {
		f.texts = map[int]string{}
	}
	f.texts[container] = text
	f.size += len(text)
}

// String returns the failures in the order of the containers; "" if there are none.
func (f *failures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, container := range slices.Sorted(maps.Keys(f.texts)) {
		lines = append(lines, f.texts[container])
	}
	if f.left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more containers", f.left))
	}
	return strings.Join(lines, "\n")
}
