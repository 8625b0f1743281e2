// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// verdict is what became of a test.
type verdict string

const (
	passed  verdict = "pass"
	skipped verdict = "skip"
	// failed is a failure that chance may have caused.
	failed verdict = "fail"
	// broken is a failure that no second run excuses: a data race, a panic, a leaked goroutine, a test that does not compile.
	broken verdict = "broken"
)

// whole stands for the package of a part that is no Go test, and for the name of a test where a package or a part has failed as a whole.
const whole = "-"

// result is what became of a test. In a file it is a line: part, seconds, verdict, package, test, and why it is broken.
type result struct {
	part    string
	seconds float64
	verdict verdict
	pkg     string
	test    string
	reason  string
}

func (r result) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %.2f %s %s %s %s", r.part, r.seconds, r.verdict, r.pkg, r.test, r.reason))
}

// name is what a reader knows the test by.
func (r result) name() string {
	switch {
	case r.pkg == whole:
		return r.part
	case r.test == whole:
		return r.pkg
	}
	return r.pkg + " " + r.test
}

// file is the name of the files with the outputs of the test, without their endings.
func (r result) file() string {
	return r.part + "." + strings.ReplaceAll(r.pkg, "/", "_") + "." + r.test
}

func parseResult(line string) (r result, err error) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 {
		return r, fmt.Errorf("invalid result %q: must have a part, seconds, a verdict, a package and a test", line)
	}
	r = result{part: fields[0], verdict: verdict(fields[2]), pkg: fields[3], test: fields[4]}
	if len(fields) == 6 {
		r.reason = fields[5]
	}
	switch r.verdict {
	case passed, skipped, failed, broken:
	default:
		return r, fmt.Errorf("invalid result %q: unknown verdict %q", line, r.verdict)
	}
	if r.seconds, err = strconv.ParseFloat(fields[1], 64); err != nil {
		return r, fmt.Errorf("invalid result %q: %w", line, err)
	}
	return r, nil
}

// readResults reads all files. A file that does not exist has no results.
func readResults(files []string) (results []result, err error) {
	for _, name := range files {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			r, err := parseResult(lines.Text())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			results = append(results, r)
		}
	}
	return results, nil
}
