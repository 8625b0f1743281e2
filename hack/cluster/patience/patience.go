// Package patience has the limit of every wait in this module's tests on real clocks.
package patience

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Variable is the environment variable with the whole number by which Limit is multiplied, for a machine that is very slow. It is that of the tests
// of the other module, pkg/testing/patience.
const Variable = "MILLWRIGHT_PATIENCE"

// Limit ends a wait that would hang. It is no assertion.
var Limit = 3 * time.Minute * factor()

// Timeout is the flag with Limit for kubectl.
var Timeout = "--timeout=" + Limit.String()

// Eventually waits until the condition is true. It fails the test with what has not become true.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s still not so: %s", Limit, what)
		}
	}
}

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
