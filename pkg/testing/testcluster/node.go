// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// LoadImages loads the images of an archive to the real node. When it returns, Pods can use them.
func (c *Cluster) LoadImages(t testing.TB, archive string) {
	t.Helper()
	out, err := exec.Command(c.process.binary("cluster"), "image", "load", "--dir", c.process.stateDir(), archive).CombinedOutput()
	if err != nil {
		t.Fatalf("loading the images of %s: %v\n%s", archive, err, out)
	}
}

// NodeInit returns the id of the process that starts and restarts the processes of the real node, which are its children.
func (c *Cluster) NodeInit(t testing.TB) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.process.stateDir(), "node", "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
