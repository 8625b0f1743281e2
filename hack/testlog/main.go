// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testlog reads what go test -json prints and prints what go test prints: a line for each package, and the output of tests
// that failed. It adds a line for each test that was skipped, with the reason. All output goes to the file --log, as go test -v has it, and the
// seconds, the package and the name of each test are appended to the file --times.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	logFile := flag.String("log", os.DevNull, "the file that gets all output")
	timesFile := flag.String("times", os.DevNull, "the file to which a line is appended for each test: seconds, package, name")
	flag.Parse()
	log, err := os.Create(*logFile)
	if err != nil {
		fail(err)
	}
	times, err := os.OpenFile(*timesFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		fail(err)
	}
	r := report{out: os.Stdout, log: log, times: times, outputs: map[test][]string{}}
	if err := r.read(os.Stdin); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testlog:", err)
	os.Exit(2)
}

// event is one of go test -json: see go doc test2json.
type event struct {
	Action      string
	Package     string
	Test        string
	ImportPath  string // of what did not build
	FailedBuild string // of a package whose tests did not build
	Elapsed     float64
	Output      string
}

// test is one of a package; without a name, what the package prints outside of its tests.
type test struct{ pkg, name string }

type report struct {
	out, log, times io.Writer
	// outputs are those of tests that have not ended, and of subtests until the test that they are part of has ended.
	outputs map[test][]string
	// logged is the test whose output was logged last.
	logged test
}

// read reports each line. What is no event, as of a build that failed, is printed as it is.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(r.out, "%s", line)
			} else {
				r.report(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) report(e event) {
	key := test{pkg: e.Package, name: e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.writeLog(key, e.Output)
		r.outputs[key] = append(r.outputs[key], e.Output)
	case "pass", "skip", "fail":
		if e.Action == "skip" && e.Test != "" {
			r.printSkipped(key)
		}
		if e.Test == "" {
			r.endPackage(e)
		} else if !strings.Contains(e.Test, "/") {
			fmt.Fprintf(r.times, "%.2f %s %s\n", e.Elapsed, e.Package, e.Test)
			r.endTest(key, e.Action == "fail")
		}
	}
}

// printSkipped prints a test that was skipped, and why: on a machine that lacks something, success means less.
func (r *report) printSkipped(skipped test) {
	var why []string
	for _, line := range r.outputs[skipped] {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			why = append(why, line)
		}
	}
	fmt.Fprintf(r.out, "skip\t%s %s: %s\n", skipped.pkg, skipped.name, strings.Join(why, " "))
}

// writeLog logs the output of a test. It names the test where it is another one than before, as go test -v does and test2json leaves out.
func (r *report) writeLog(of test, output string) {
	switch line := strings.TrimSpace(output); {
	case strings.HasPrefix(line, "=== "), strings.HasPrefix(line, "--- "):
		// The line has the name.
	case of != r.logged && of.name != "":
		fmt.Fprintf(r.log, "=== NAME  %s\n", of.name)
	}
	r.logged = of
	fmt.Fprint(r.log, output)
}

// endTest prints the output of a test that failed, and of its subtests, and forgets it.
func (r *report) endTest(ended test, failed bool) {
	var names []string
	for key := range r.outputs {
		if key.pkg == ended.pkg && (key.name == ended.name || strings.HasPrefix(key.name, ended.name+"/")) {
			names = append(names, key.name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		key := test{pkg: ended.pkg, name: name}
		if failed {
			r.print(r.outputs[key])
		}
		delete(r.outputs, key)
	}
}

// endPackage prints the line of a package. Where it failed, tests that have not ended are printed too: it may have crashed in them.
func (r *report) endPackage(e event) {
	own := test{pkg: e.Package}
	lines := r.outputs[own]
	delete(r.outputs, own)
	for key, output := range r.outputs {
		if key.pkg == e.Package {
			if e.Action == "fail" {
				r.print(output)
			}
			delete(r.outputs, key)
		}
	}
	if e.Action != "fail" {
		lines = lines[max(0, len(lines)-1):]
	}
	r.print(lines)
	if e.FailedBuild != "" && len(lines) == 0 {
		fmt.Fprintf(r.out, "FAIL\t%s [build failed]\n", e.Package)
	}
}

// print prints lines, without those of go test -v that a test begins, continues or passes.
func (r *report) print(lines []string) {
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		if trimmed == "PASS" || strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- PASS") || strings.HasPrefix(trimmed, "--- SKIP") {
			continue
		}
		fmt.Fprint(r.out, line)
	}
}
