// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime/debug"
	"strconv"
)

const (
	// memoryLimitVariable has the limit of the container, in bytes. The downward API has no means to say a share of it in GOMEMLIMIT.
	memoryLimitVariable = "MEMORY_LIMIT"
	// heapPercent of the limit is what the garbage collector keeps the Go runtime below, as long as what is in use is less. The rest is for
	// what the runtime does not count, and for what is allocated faster than it is collected.
	heapPercent = 80
)

// limitMemory sets the soft memory limit of the Go runtime from that of the container. A GOMEMLIMIT that is set by hand is left as it is.
// It returns the limit, 0 if it sets none.
func limitMemory(getenv func(string) string) (int64, error) {
	text := getenv(memoryLimitVariable)
	if text == "" || getenv("GOMEMLIMIT") != "" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return 0, fmt.Errorf("%s=%q is not a number of bytes: take it from limits.memory of the container by a resourceFieldRef", memoryLimitVariable, text)
	}
	limit = limit / 100 * heapPercent
	debug.SetMemoryLimit(limit)
	return limit, nil
}
