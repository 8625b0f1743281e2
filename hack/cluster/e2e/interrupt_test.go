package e2e

import (
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// interrupts is how many starts are interrupted in a run, at other moments in each. Of 46, two ended in a panic once.
const interrupts = 4

var trace = regexp.MustCompile(`(?m)^(panic|fatal error|goroutine )`)

// TestInterrupt stops a control plane at moments that are spread over its start.
func TestInterrupt(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	path := filepath.Join(t.TempDir(), "state")
	begin := time.Now()
	whole := up(t, path, "--port", "0", "--unsafe-no-fsync")
	took := time.Since(begin)
	whole.signal(t, syscall.SIGINT)
	if code := whole.exitCode(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, whole.output.String())
	}
	for i := range interrupts {
		moment := (took*time.Duration(i) + rand.N(took)) / interrupts
		c := start(t, upCommand(path, "--port", "0", "--unsafe-no-fsync"))
		time.Sleep(moment) // a moment, not a wait for something
		c.signal(t, syscall.SIGINT)
		if code, output := c.exitCode(), c.output.String(); code != 0 && code != -1 || trace.MatchString(output) {
			t.Errorf("interrupted %v after its start, which takes %v: exit code %d:\n%s", moment, took, code, output)
		}
	}
	again := up(t, path, "--port", "0", "--unsafe-no-fsync")
	again.kubectl(t, "get", "--raw", "/readyz")
	again.signal(t, syscall.SIGINT)
}
