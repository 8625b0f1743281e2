// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package patience has the limit of every wait in tests on real clocks.
package patience

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Variable is the environment variable with the whole number by which Limit is multiplied, for a machine that is very slow. The tests of hack/cluster
// and hack/test-run.sh read it, too.
const Variable = "MILLWRIGHT_PATIENCE"

// Limit ends a wait that would hang. It is no assertion: a test whose subject is time compares what was recorded, by order and count.
var Limit = 3 * time.Minute * factor()

// Timeout is the flag with Limit for kubectl.
var Timeout = "--timeout=" + Limit.String()

func factor() time.Duration {
	text := os.Getenv(Variable)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("invalid %s=%s: must be a whole number above 0", Variable, text))
	}
	return time.Duration(n)
}
