// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command transcript runs the commands of Markdown files, and compares their output with the one that is printed there:
//
//	transcript [--patience DURATION] FILE[#SECTION]...
//
// SECTION is a heading in the form of a link to it, as in README.md#a-walk-through; without it, all of the file is run.
//
// A command is a line of a code block that begins with "$ "; its output is what follows, up to the next command or the end of the block.
// Ages, times, hashes in names, and the number of spaces may differ. A line "..." stands for any lines. A command may fail if the file shows
// what it prints then.
//
// A command that reads (kubectl get, describe, logs, events or wait) is repeated until its output is the one of the file, because controllers work
// in the background. Of a command with --watch, the lines of the file have to appear in their order. It starts before the command in front
// of it runs: what that changes may last for seconds only.
//
// It runs the commands in the current directory, with bash, and stops at the first whose output differs. It exits with 1 then.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// interval is the time between two attempts.
const interval = 200 * time.Millisecond

// patience is how long a command may take to print what the file has.
var patience = flag.Duration("patience", 3*time.Minute, "how long a command may take to print what the file has")

func main() {
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: transcript [--patience DURATION] FILE[#SECTION]...")
		os.Exit(2)
	}
	for _, argument := range flag.Args() {
		file, section, _ := strings.Cut(argument, "#")
		content, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "transcript:", err)
			os.Exit(2)
		}
		steps := parse(string(content), section)
		if len(steps) == 0 {
			fmt.Fprintf(os.Stderr, "transcript: %s has no command: a line of a code block that begins with \"$ \"\n", argument)
			os.Exit(2)
		}
		if failed, err := runAll(context.Background(), steps, func(s step) { fmt.Printf("%s:%d: %s\n", file, s.line, s.command) }); err != nil {
			fmt.Fprintf(os.Stderr, "%s:%d: %s: %v\n", file, failed.line, failed.command, err)
			os.Exit(1)
		}
	}
}

// runAll runs the commands, and announces each. With an error, it returns the one whose output differs.
func runAll(ctx context.Context, steps []step, announce func(step)) (failed step, err error) {
	var begun *watch
	for i, s := range steps {
		current := begun
		begun = nil
		if i+1 < len(steps) && steps[i+1].watches() {
			begun = startWatch(ctx, steps[i+1])
			begun.awaitBegin()
		}
		announce(s)
		switch {
		case !s.watches():
			err = run(ctx, s)
		case current == nil:
			err = startWatch(ctx, s).await()
		default:
			err = current.await()
		}
		if err != nil {
			if begun != nil {
				begun.end()
			}
			return s, err
		}
	}
	return step{}, nil
}

// run runs a command until it has printed what the file has. Its error has both outputs.
func run(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, 2*(*patience)) // so that no command hangs
	defer cancel()
	deadline := time.Now().Add(*patience)
	for {
		output, err := exec.CommandContext(ctx, "bash", "-c", s.command).CombinedOutput()
		if s.matches(string(output)) && (err == nil || len(s.output) > 0) {
			return nil
		}
		if !s.reads() || time.Until(deadline) < interval {
			return fmt.Errorf("the output differs (%v).\nprinted:\n%s\nin the file:\n%s", err, output, strings.Join(s.output, "\n"))
		}
		time.Sleep(interval)
	}
}
