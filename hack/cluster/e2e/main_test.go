// Package e2e tests the binary from outside: it starts clusters as their users do and looks at what they see.
package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binaryEnv names a binary to test instead of bin/cluster, which is otherwise brought up to date first.
const binaryEnv = "CLUSTER_BINARY"

var binary = os.Getenv(binaryEnv)

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		parent()
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if binary == "" {
		build := exec.Command("../build.sh")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building the binary:", err)
			return 1
		}
		path, err := filepath.Abs("../../../bin/cluster")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = path
	}
	return m.Run()
}

// parentEnv makes the test binary a process that runs the command in its arguments, with a pipe as standard input, until it is
// killed: a parent that has no chance to clean up.
const parentEnv = "E2E_TEST_PARENT"

func parent() {
	child := exec.Command(os.Args[1], os.Args[2:]...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	stdin, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer stdin.Close()
	// Forever: the other end stays open until this process is killed.
	_, _ = io.Copy(io.Discard, os.Stdin)
}
