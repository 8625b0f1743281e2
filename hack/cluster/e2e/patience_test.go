package e2e

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// patienceVariable is the environment variable with the whole number by which patience is multiplied, for a machine that is very slow. It is that
// of the tests of the other module, pkg/testing/patience.
const patienceVariable = "MILLWRIGHT_PATIENCE"

// patience ends a wait that would hang. It is no assertion.
var patience = readPatience()

// timeout is the flag of kubectl with patience.
var timeout = "--timeout=" + patience.String()

func readPatience() time.Duration {
	factor := 1
	if text := os.Getenv(patienceVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("invalid %s=%s: must be a whole number above 0", patienceVariable, text))
		}
		factor = n
	}
	return time.Duration(factor) * 3 * time.Minute
}
