// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The endings of the files with the outputs of a test: when it failed, and when it ran again.
const (
	failedEnding = ".failed.log"
	againEnding  = ".again.log"
)

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

// top returns the test that a subtest is part of.
func (t test) top() test {
	name, _, _ := strings.Cut(t.name, "/")
	return test{t.pkg, name}
}

type report struct {
	part              string
	out, log, results io.Writer
	// outputsDir is the folder for the outputs of failed tests, or "".
	outputsDir string
	progress   *progress
	// outputs are those of tests that have not ended, and of subtests until the test that they are part of has ended.
	outputs map[test][]string
	// logged is the test whose output was logged last.
	logged test
	// reasons are why failures of tests, or of all tests of a package, depend on no chance.
	reasons map[test]string
	// running are the tests of each package that have begun and not ended, without subtests.
	running map[string][]string
	// ended are the results of packages that have not ended: the end of a package may show that its tests are broken.
	ended map[string][]result
	// afterwards has what each package has printed first after all its tests had passed.
	afterwards map[string]string
}

func newReport(progress *progress, out, log, results io.Writer, outputsDir string) *report {
	return &report{part: progress.part, out: out, log: log, results: results, outputsDir: outputsDir, progress: progress,
		outputs: map[test][]string{}, reasons: map[test]string{}, running: map[string][]string{}, ended: map[string][]result{}, afterwards: map[string]string{}}
}

// read reports each line, and how far the part is.
func (r *report) read(in io.Reader) error {
	lines, failure := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(lines)
		reader := bufio.NewReader(in)
		for {
			line, err := reader.ReadBytes('\n')
			lines <- line
			if err != nil {
				failure <- err
				return
			}
		}
	}()
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	var problem error
	for {
		select {
		case line, more := <-lines:
			if !more {
				if err := <-failure; problem == nil && err != io.EOF {
					problem = err
				}
				return problem
			}
			// After a problem it reads on: go test would wait for ever.
			if problem == nil {
				problem = r.readLine(line)
			}
		case <-ticks.C:
			r.progress.tick(r.out)
		}
	}
}

// readLine reports a line. What is no event, as of a build that failed, is printed as it is.
func (r *report) readLine(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		fmt.Fprintf(r.out, "%s", line)
		return nil
	}
	return r.report(e)
}

func (r *report) report(e event) error {
	key := test{pkg: e.Package, name: e.Test}
	switch e.Action {
	case "run":
		if key == key.top() {
			r.running[e.Package] = append(r.running[e.Package], e.Test)
		}
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.writeLog(key, e.Output)
		r.outputs[key] = append(r.outputs[key], e.Output)
		r.notice(key, e.Output)
	case "pass", "skip", "fail":
		if e.Action == "skip" && e.Test != "" {
			r.printSkipped(key)
		}
		if e.Test == "" {
			return r.endPackage(e)
		}
		r.progress.ended++
		if key == key.top() {
			r.running[e.Package] = slices.DeleteFunc(r.running[e.Package], func(name string) bool { return name == e.Test })
			r.ended[e.Package] = append(r.ended[e.Package], result{part: r.part, seconds: e.Elapsed, verdict: verdict(e.Action), pkg: e.Package, test: e.Test})
			return r.endTest(key, e.Action == "fail")
		}
	}
	return nil
}

// notice remembers what makes a failure one that depends on no chance. A data race is printed in whatever test is running.
func (r *report) notice(of test, output string) {
	line := strings.TrimSpace(output)
	switch {
	case strings.HasPrefix(line, "WARNING: DATA RACE"):
		r.reasons[test{pkg: of.pkg}] = "a data race"
	case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
		r.reasons[of.top()] = "a panic"
	case strings.Contains(line, "found unexpected goroutines"), strings.HasPrefix(line, "goleak: "):
		r.reasons[of.top()] = "a leaked goroutine"
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
func (r *report) endTest(ended test, failed bool) error {
	var names []string
	for key := range r.outputs {
		if key.name != "" && key.top() == ended {
			names = append(names, key.name)
		}
	}
	slices.Sort(names)
	var kept strings.Builder
	for _, name := range names {
		key := test{pkg: ended.pkg, name: name}
		if failed {
			r.print(io.MultiWriter(r.out, &kept), r.outputs[key])
		}
		delete(r.outputs, key)
	}
	if !failed || r.outputsDir == "" {
		return nil
	}
	name := result{part: r.part, pkg: ended.pkg, test: ended.name}.file() + failedEnding
	return os.WriteFile(filepath.Join(r.outputsDir, name), []byte(kept.String()), 0o644)
}

// endPackage prints the line of a package. Where it failed, tests that have not ended are printed too: it may have crashed in them.
func (r *report) endPackage(e event) error {
	own := test{pkg: e.Package}
	lines := r.outputs[own]
	r.afterwards[e.Package] = firstAfterPass(lines)
	delete(r.outputs, own)
	for key, output := range r.outputs {
		if key.pkg == e.Package {
			if e.Action == "fail" {
				r.print(r.out, output)
			}
			delete(r.outputs, key)
		}
	}
	if e.Action != "fail" {
		lines = lines[max(0, len(lines)-1):]
	}
	if e.FailedBuild != "" && len(lines) == 0 {
		lines = []string{fmt.Sprintf("FAIL\t%s [build failed]\n", e.Package)}
	}
	if note, last := r.progress.endPackage(), len(lines)-1; last >= 0 {
		lines[last] = strings.TrimSuffix(lines[last], "\n") + note + "\n"
	}
	r.print(r.out, lines)
	return r.writeResults(e)
}

// firstAfterPass returns what TestMain has printed first after the tests had passed, or "".
func firstAfterPass(lines []string) string {
	_, after, _ := strings.Cut(strings.Join(lines, ""), "PASS\n")
	first, _, _ := strings.Cut(after, "\n")
	if strings.HasPrefix(first, "exit status ") || strings.HasPrefix(first, "FAIL\t") {
		return ""
	}
	return first
}

// writeResults writes what became of the tests of a package that has ended.
func (r *report) writeResults(e event) error {
	results := r.ended[e.Package]
	if e.Action == "fail" {
		results = r.blame(e, results)
	}
	delete(r.ended, e.Package)
	delete(r.running, e.Package)
	for _, each := range results {
		if _, err := fmt.Fprintln(r.results, each); err != nil {
			return fmt.Errorf("writing results: %w", err)
		}
	}
	return nil
}

// blame marks the tests of a package that failed which are broken. The package is, if it ended in the middle of a test, or without a failed one: it
// does not compile, or it has leaked goroutines.
func (r *report) blame(e event, results []result) []result {
	reason := r.reasons[test{pkg: e.Package}]
	some := false
	for i, each := range results {
		if each.verdict != failed {
			continue
		}
		some = true
		if own := r.reasons[test{pkg: e.Package, name: each.test}]; own != "" {
			results[i].verdict, results[i].reason = broken, own
		} else if reason != "" {
			results[i].verdict, results[i].reason = broken, reason
		}
	}
	unfinished := r.running[e.Package]
	switch {
	case some && len(unfinished) == 0:
		return results
	case e.FailedBuild != "":
		reason = "it does not compile"
	case len(unfinished) > 0:
		reason = cmp.Or(reason, "it ended before "+unfinished[0])
		for _, name := range unfinished {
			reason = cmp.Or(r.reasons[test{pkg: e.Package, name: name}], reason)
		}
	case reason == "":
		reason = strings.TrimSuffix("it failed, and none of its tests: "+r.afterwards[e.Package], ": ")
	}
	return append(results, result{part: r.part, seconds: e.Elapsed, verdict: broken, pkg: e.Package, test: whole, reason: reason})
}

// print prints lines, without those of go test -v that a test begins, continues or passes.
func (r *report) print(out io.Writer, lines []string) {
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		if trimmed == "PASS" || strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- PASS") || strings.HasPrefix(trimmed, "--- SKIP") {
			continue
		}
		fmt.Fprint(out, line)
	}
}
