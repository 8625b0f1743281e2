// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testlog reports tests.
//
//	go test -json | testlog [flags]        print what go test prints: a line for each package, and the output of tests that failed
//	testlog again RESULTS...               list the failed tests that are run once more, or explain why none is
//	testlog failed RESULTS...              list all failed tests
//	testlog summary RESULTS... [--again]   print what became of all of them, after they were run again
//
// The first adds a line for each test that was skipped, with the reason, and how far the part is, if it is given the number of packages. All output
// goes to the file --log, as go test -v has it, and what became of each test is appended to the file --results (result.go).
//
// A test that fails may depend on chance: it is run once more, alone. gotestsum, which can do that too, runs it again while other test
// commands still run, and cannot exclude data races.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) > 0 && arguments[0] == "again":
		err = listAgain(arguments[1:])
	case len(arguments) > 0 && arguments[0] == "failed":
		err = listFailed(arguments[1:])
	case len(arguments) > 0 && arguments[0] == "summary":
		err = summarize(arguments[1:])
	default:
		err = follow()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(2)
	}
}

// follow reports what go test -json prints to the standard input.
func follow() error {
	part := flag.String("part", "-", "the part that the tests belong to, for the results")
	logFile := flag.String("log", os.DevNull, "the file that gets all output")
	resultsFile := flag.String("results", os.DevNull, "the file to which a line is appended for each test")
	outputs := flag.String("outputs", "", "the folder that gets a file with the output of each test that failed")
	packages := flag.Int("packages", 0, "how many packages the part has: then it prints how far it is")
	then := flag.String("then", "", "the parts that follow, separated by spaces")
	flag.Parse()
	log, err := os.Create(*logFile)
	if err != nil {
		return err
	}
	results, err := os.OpenFile(*resultsFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	var after time.Duration
	for _, name := range strings.Fields(*then) {
		after += paces[name].takes
	}
	r := newReport(newProgress(*part, paces[*part], *packages, after, time.Now), os.Stdout, log, results, *outputs)
	return r.read(os.Stdin)
}

// listAgain prints a line for each test that is run once more: part, package, name, and the name of its files. It exits with 1 if there are
// failures, and none may be.
func listAgain(files []string) error {
	results, err := readResults(files)
	if err != nil {
		return err
	}
	list, err := again(results)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, r := range list {
		fmt.Println(r.part, r.pkg, r.test, r.file())
	}
	return nil
}

// listFailed prints a line for each package with failed tests: part, package, and the pattern of go test -run that selects these tests.
func listFailed(files []string) error {
	results, err := readResults(files)
	if err != nil {
		return err
	}
	for _, selected := range selectFailed(results) {
		fmt.Println(selected.part, selected.pkg, selected.pattern)
	}
	return nil
}

// summarize prints the tests that took longest, and those that are flaky with both outputs. It exits with 1 if a test has failed.
func summarize(arguments []string) error {
	flags := flag.NewFlagSet("summary", flag.ExitOnError)
	againFile := flags.String("again", os.DevNull, "the results of the tests that were run again")
	outputs := flags.String("outputs", "", "the folder with the outputs of failed tests, and of those that were run again")
	closing := flags.String("closing", os.DevNull, "the file that gets the last lines: the names of flaky tests, and the counts")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	first, err := readResults(flags.Args())
	if err != nil {
		return err
	}
	second, err := readResults([]string{*againFile})
	if err != nil {
		return err
	}
	s := judge(first, second)
	printSlowest(os.Stdout, first)
	for _, r := range s.flaky {
		printOutputs(os.Stdout, r, *outputs)
	}
	if err := os.WriteFile(*closing, []byte(s.closing()), 0o644); err != nil {
		return err
	}
	if len(s.failed) > 0 {
		os.Exit(1)
	}
	return nil
}
