// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package samplehook runs the hooks of the samples in manifests/samples on this machine, as their Deployments run them in Pods: the code is that
// of the ConfigMaps in the manifests.
package samplehook

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// samples is the folder of the samples, as seen from a folder in pkg/testing.
var samples = filepath.Join("..", "..", "..", "manifests", "samples")

// interpreters run the code of a file with this extension.
var interpreters = map[string]string{".py": "python3", ".js": "node"}

// toListen bounds how long a hook may take until it listens.
const toListen = time.Minute

// Objects returns the objects of a file in manifests/samples, such as "compositecontroller/hello.yaml". Only the tests of a package
// in pkg/testing can call it.
func Objects(t testing.TB, file string) (objects []*unstructured.Unstructured) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(samples, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, o)
	}
	return objects
}

// Start runs the hook of a sample until the test ends, and returns its address on loopback. The test is skipped if the interpreter is not installed.
func Start(t testing.TB, file string) (address string) {
	t.Helper()
	for _, o := range Objects(t, file) {
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		for name, code := range data {
			if interpreter := interpreters[filepath.Ext(name)]; o.GetKind() == "ConfigMap" && interpreter != "" {
				return run(t, interpreter, name, code)
			}
		}
	}
	t.Fatalf("%s has no ConfigMap with the code of a hook", file)
	return ""
}

// run runs the code of a hook. The hook listens at its port, 8080, but at an address of its own on loopback instead of all addresses.
func run(t testing.TB, interpreter, name, code string) (address string) {
	t.Helper()
	program, err := exec.LookPath(interpreter)
	if err != nil {
		t.Skipf("%s is not installed: the hook %s cannot be run here", interpreter, name)
	}
	host := loopback()
	address = net.JoinHostPort(host, "8080")
	moved := strings.NewReplacer(`("", 8080)`, `("`+host+`", 8080)`, ".listen(8080)", ".listen(8080, '"+host+"')").Replace(code)
	if moved == code {
		t.Fatalf("%s does not listen on port 8080 as its Service says", name)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	output := &buffer{}
	command := exec.Command(program, file)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, output)
		}
	})
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
			return address
		}
		if time.Since(begin) > toListen {
			t.Fatalf("the hook %s does not listen: %v", name, err)
		}
	}
}

// loopback returns a random address on loopback. A free port of one address could be taken before the hook listens, by a test that runs concurrently.
func loopback() string {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))}).String()
}

// buffer can be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// String returns all that was written.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
