// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command transcript runs the commands of Markdown files, and compares their output with the one that is printed there:
//
//	transcript FILE[#SECTION]...
//
// SECTION is a heading in the form of a link to it, as in README.md#a-walk-through; without it, all of the file is run.
//
// A command is a line of a code block that begins with "$ "; its output is what follows, up to the next command or the end of the block.
// Ages, times, hashes in names, and the number of spaces may differ. A line "..." stands for any lines. A command may fail if the file shows
// what it prints then.
//
// A command that reads (kubectl get, describe, logs, events or wait) is repeated until its output is the one of the file, for at most half a
// minute, because controllers work in the background. Of a command with --watch, the lines of the file have to appear in their order.
//
// It runs the commands in the current directory, with bash, and stops at the first whose output differs. It exits with 1 then.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// patience is how long a command may take to print what the file has.
	patience = 30 * time.Second
	// interval is the time between two attempts.
	interval = 200 * time.Millisecond
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: transcript FILE[#SECTION]...")
		os.Exit(2)
	}
	for _, argument := range os.Args[1:] {
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
		for _, step := range steps {
			fmt.Printf("%s:%d: %s\n", file, step.line, step.command)
			if err := run(context.Background(), step); err != nil {
				fmt.Fprintf(os.Stderr, "%s:%d: %s: %v\n", file, step.line, step.command, err)
				os.Exit(1)
			}
		}
	}
}

// run runs a command until it has printed what the file has. Its error has both outputs.
func run(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience) // so that no command hangs
	defer cancel()
	if s.watches() {
		return follow(ctx, s)
	}
	deadline := time.Now().Add(patience)
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

// follow runs a command that does not end, until it has printed all lines of the file.
func follow(ctx context.Context, s step) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	printed := &follower{step: s, done: cancel}
	command := exec.CommandContext(ctx, "bash", "-c", "exec "+s.command)
	command.Stdout, command.Stderr = printed, printed
	err := command.Run()
	if s.appearsIn(printed.text()) {
		return nil
	}
	return fmt.Errorf("not all lines appeared (%v).\nprinted:\n%s\nin the file:\n%s", err, printed.text(), strings.Join(s.output, "\n"))
}
