// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// read returns what is printed and logged of the events, and the results, without their times.
func read(t *testing.T, events string) (out, log string, results []string) {
	t.Helper()
	var o, l, d strings.Builder
	if err := newReport(newProgress("unit", pace{}, 0, 0, time.Now), &o, &l, &d, t.TempDir()).read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(d.String()) {
		r, err := parseResult(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		r.seconds = 0
		results = append(results, r.String())
	}
	return o.String(), l.String(), results
}

// events are those that the real go test prints, with the flags, for a package with these tests.
func events(t *testing.T, tests string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module example.com/planted\n", "a_test.go": "package planted\n\nimport \"testing\"\n\n" + tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("go", append([]string{"test", "-json", "-vet=off", "."}, flags...)...)
	command.Dir = dir
	if len(flags) > 0 {
		command.Env = append(os.Environ(), "CGO_ENABLED=1") // for -race
	}
	output, _ := command.CombinedOutput() // the tests may fail
	return string(output)
}

func TestOnlyFailedTestsArePrinted(t *testing.T) {
	out, log, results := read(t, events(t, `
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
	want := []string{"unit 0.00 pass example.com/planted TestGood", "unit 0.00 fail example.com/planted TestBad"}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
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
	out, _, results := read(t, events(t, "func TestCrash(t *testing.T) { go panic(`for this reason`); select {} }\n"))
	if !strings.Contains(out, "for this reason") || !strings.Contains(out, "FAIL\texample.com/planted") {
		t.Errorf("printed %q", out)
	}
	if want := []string{"unit 0.00 broken example.com/planted - a panic"}; !cmp.Equal(want, results) {
		t.Errorf("results are %q, want %q", results, want)
	}
}

func TestFailedBuildsArePrinted(t *testing.T) {
	out, _, results := read(t, events(t, "func TestNone(t *testing.T) { none() }\n"))
	if !strings.Contains(out, "undefined: none") || !strings.Contains(out, "[build failed]") {
		t.Errorf("printed %q", out)
	}
	if want := []string{"unit 0.00 broken example.com/planted - it does not compile"}; !cmp.Equal(want, results) {
		t.Errorf("results are %q, want %q", results, want)
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

// A failure that no second run excuses is recorded as one, with the reason.
func TestFailuresThatDependOnNoChance(t *testing.T) {
	for name, test := range map[string]struct {
		tests string
		flags []string
		want  []string
	}{
		"a panic in a test": {
			tests: "func TestBad(t *testing.T) { t.Error(1) }\nfunc TestPanics(t *testing.T) { panic(`x`) }",
			want: []string{
				"unit 0.00 fail example.com/planted TestBad",
				"unit 0.00 broken example.com/planted TestPanics a panic",
			},
		},
		"a data race": {
			tests: `
func TestRaces(t *testing.T) {
	done, n := make(chan bool), 0
	go func() { n++; close(done) }()
	n++
	<-done
}
func TestBad(t *testing.T) { t.Error(1) }`,
			flags: []string{"-race"},
			want: []string{
				"unit 0.00 broken example.com/planted TestRaces a data race",
				"unit 0.00 broken example.com/planted TestBad a data race",
			},
		},
		"a main function that finds something": {
			tests: "func TestGood(t *testing.T) {}\nfunc TestMain(m *testing.M) { m.Run(); println(`goleak: Errors on successful test run: x`); os.Exit(1) }",
			want: []string{
				"unit 0.00 pass example.com/planted TestGood",
				"unit 0.00 broken example.com/planted - a leaked goroutine",
			},
		},
		"an exit in the middle": {
			tests: "func TestBad(t *testing.T) { t.Error(1) }\nfunc TestExits(t *testing.T) { os.Exit(1) }",
			want: []string{
				"unit 0.00 fail example.com/planted TestBad",
				"unit 0.00 broken example.com/planted - it ended before TestExits",
			},
		},
		"another exit status": {
			tests: "func TestGood(t *testing.T) {}\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(1) }",
			want: []string{
				"unit 0.00 pass example.com/planted TestGood",
				"unit 0.00 broken example.com/planted - it failed, and none of its tests",
			},
		},
		"a main function that judges": {
			tests: "func TestGood(t *testing.T) {}\nfunc TestMain(m *testing.M) { m.Run(); println(`a right is missing`); println(`another, too`); os.Exit(1) }",
			want: []string{
				"unit 0.00 pass example.com/planted TestGood",
				"unit 0.00 broken example.com/planted - it failed, and none of its tests: a right is missing",
			},
		},
		"goroutines that a subtest finds": {
			tests: "func TestBad(t *testing.T) { t.Run(`inner`, func(t *testing.T) { t.Error(`found unexpected goroutines:`) }) }",
			want:  []string{"unit 0.00 broken example.com/planted TestBad a leaked goroutine"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(test.flags, "-race") {
				if output, err := exec.Command("../require.sh", "race").CombinedOutput(); err != nil {
					t.Skipf("%s", output)
				}
			}
			tests := test.tests
			if strings.Contains(tests, "os.") {
				tests = "import \"os\"\n" + tests
			}
			_, _, results := read(t, events(t, tests, test.flags...))
			if diff := cmp.Diff(test.want, results); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheOutputOfAFailedTestIsKept(t *testing.T) {
	dir := t.TempDir()
	r := newReport(newProgress("unit", pace{}, 0, 0, time.Now), io.Discard, io.Discard, io.Discard, dir)
	if err := r.read(strings.NewReader(events(t, "func TestBad(t *testing.T) { t.Run(`inner`, func(t *testing.T) { t.Error(`for this reason`) }) }"))); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "unit.example.com_planted.TestBad.failed.log"))
	if err != nil || !strings.Contains(string(kept), "for this reason") {
		t.Errorf("kept %q, %v", kept, err)
	}
}
