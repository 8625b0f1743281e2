// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"
	"strings"
)

// loadAverage of the last minute, as Linux tells it; "" where it is not told. It includes nothing of ours when it is asked
// for before anything is started.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	load, _, _ := strings.Cut(string(content), " ")
	return load
}

// busyAdvice is for those who measure on a machine that does other things too; "" where it does not.
func busyAdvice(load string, cores int) string {
	value, err := strconv.ParseFloat(load, 64)
	if err != nil || value < float64(cores)/4 {
		return ""
	}
	return "The machine is busy (load average " + load + "): times are longer than they need be, and ratios of times vary. Requests, CPU and heap hardly do."
}
