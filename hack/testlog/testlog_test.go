// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// read returns what is printed, logged and timed of the events.
func read(t *testing.T, events string) (out, log, times string) {
	t.Helper()
	var o, l, d strings.Builder
	r := report{out: &o, log: &l, times: &d, outputs: map[test][]string{}}
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	return o.String(), l.String(), d.String()
}

// events are those that the real go test prints for a package with these tests.
func events(t *testing.T, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module example.com/planted\n", "a_test.go": "package planted\n\nimport \"testing\"\n\n" + tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("go", "test", "-json", "-vet=off", ".")
	command.Dir = dir
	output, _ := command.CombinedOutput() // the tests may fail
	return string(output)
}

func TestOnlyFailedTestsArePrinted(t *testing.T) {
	out, log, times := read(t, events(t, `
func TestGood(t *testing.T) { t.Log("good to know") }
func TestBad(t *testing.T) {
	t.Run("fine", func(t *testing.T) { t.Log("fine to know") })
	t.Run("wrong", func(t *testing.T) { t.Error("wrong to know") })
}
`))
	for _, want := range []string{"wrong to know", "--- FAIL: TestBad/wrong", "FAIL\texample.com/planted"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not printed:\n%s", want, out)
		}
	}
	for _, unwanted := range []string{"good to know", "--- PASS", "=== RUN"} {
		if strings.Contains(out, unwanted) {
			t.Errorf("%q is printed:\n%s", unwanted, out)
		}
	}
	if !strings.Contains(log, "good to know") || !strings.Contains(log, "=== RUN   TestGood") {
		t.Errorf("not all is logged:\n%s", log)
	}
	if lines := strings.Split(strings.TrimSpace(times), "\n"); len(lines) != 2 || lines[0] != "0.00 example.com/planted TestGood" {
		t.Errorf("times are %q, want a line for each test", times)
	}
}

func TestPackagesThatPassTakeOneLine(t *testing.T) {
	out, _, _ := read(t, events(t, "func TestGood(t *testing.T) { println(`chatter`) }\n"))
	if !strings.HasPrefix(out, "ok  \texample.com/planted") || strings.Count(out, "\n") != 1 {
		t.Errorf("printed %q, want the line of the package", out)
	}
}

func TestSkippedTestsArePrintedWithTheReason(t *testing.T) {
	out, _, _ := read(t, events(t, `
func TestOuter(t *testing.T) {
	t.Run("inner", func(t *testing.T) { t.Skip("python3 is not installed") })
}
`))
	if want := "skip\texample.com/planted TestOuter/inner: a_test.go:7: python3 is not installed\n"; !strings.HasPrefix(out, want) || strings.Count(out, "skip") != 1 {
		t.Errorf("printed %q, want %q first", out, want)
	}
}

func TestCrashesArePrinted(t *testing.T) {
	out, _, _ := read(t, events(t, "func TestCrash(t *testing.T) { go panic(`for this reason`); select {} }\n"))
	if !strings.Contains(out, "for this reason") || !strings.Contains(out, "FAIL\texample.com/planted") {
		t.Errorf("printed %q", out)
	}
}

func TestFailedBuildsArePrinted(t *testing.T) {
	out, _, _ := read(t, events(t, "func TestNone(t *testing.T) { none() }\n"))
	if !strings.Contains(out, "undefined: none") || !strings.Contains(out, "[build failed]") {
		t.Errorf("printed %q", out)
	}
}

func TestTheLogNamesTheTestOfEachLine(t *testing.T) {
	_, log, _ := read(t, events(t, `
func TestOuter(t *testing.T) {
	t.Run("inner", func(t *testing.T) { t.Log("of inner") })
	t.Log("of outer")
}
`))
	named := ""
	for line := range strings.Lines(log) {
		if name, found := strings.CutPrefix(line, "=== NAME  "); found {
			named = strings.TrimSpace(name)
		}
		if strings.Contains(line, "of outer") && named != "TestOuter" {
			t.Errorf("the line of TestOuter comes after %q:\n%s", named, log)
		}
	}
}
