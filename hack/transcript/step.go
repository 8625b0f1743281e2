// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
)

// step is a command of a file, with its output.
type step struct {
	line    int
	command string
	output  []string
}

// parse returns the commands in the code blocks of a Markdown text, or of one of its sections.
func parse(text, section string) []step {
	var steps []step
	inBlock, inStep, inSection := false, false, section == ""
	for i, line := range strings.Split(text, "\n") {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock, inStep = !inBlock, false
		case !inBlock && section != "" && strings.HasPrefix(line, "#"):
			inSection = anchor(line) == section
		case inBlock && isCommand && inSection:
			inStep = true
			steps = append(steps, step{line: i + 1, command: command})
		case inStep:
			last := &steps[len(steps)-1]
			last.output = append(last.output, line)
		}
	}
	for i := range steps {
		steps[i].output = normalize(strings.Join(steps[i].output, "\n"))
	}
	return steps
}

// anchor returns what a link to a heading has after the "#".
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimLeft(heading, "# ")), " ", "-")
}

var (
	ages = regexp.MustCompile(`\b([0-9]+[smhd])+\b`)
	// hashes match what the API server (generateName) and the Deployment controller append to names: k8s.io/apimachinery/pkg/util/rand.
	hashes = regexp.MustCompile(`(-[bcdfghjklmnpqrstvwxz2456789]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	times  = regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`)
	spaces = regexp.MustCompile(`\s+`)
)

// normalize returns the lines of an output without what differs from one run to the next. Empty lines are left out.
func normalize(output string) []string {
	var lines []string
	for line := range strings.SplitSeq(output, "\n") {
		line = times.ReplaceAllString(line, "TIME")
		line = hashes.ReplaceAllString(ages.ReplaceAllString(line, "AGE"), "-HASH")
		if line = strings.TrimSpace(spaces.ReplaceAllString(line, " ")); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// reads reports whether the command changes nothing, so that it may be repeated.
func (s step) reads() bool {
	words := strings.Fields(s.command)
	return len(words) > 1 && words[0] == "kubectl" && slices.Contains([]string{"get", "describe", "logs", "events", "wait"}, words[1])
}

// watches reports whether the command does not end.
func (s step) watches() bool { return strings.Contains(s.command, "--watch") }

// matches reports whether an output is the one of the file.
func (s step) matches(output string) bool { return matchLines(s.output, normalize(output)) }

// appearsIn reports whether the lines of the file appear in an output, in their order.
func (s step) appearsIn(output string) bool {
	lines := normalize(output)
	for _, line := range s.output {
		i := slices.Index(lines, line)
		if i < 0 {
			return false
		}
		lines = lines[i+1:]
	}
	return true
}

// matchLines compares lines with a pattern, in which "..." stands for any number of lines.
func matchLines(pattern, lines []string) bool {
	switch {
	case len(pattern) == 0:
		return len(lines) == 0
	case pattern[0] == "...":
		for i := range len(lines) + 1 {
			if matchLines(pattern[1:], lines[i:]) {
				return true
			}
		}
		return false
	default:
		return len(lines) > 0 && pattern[0] == lines[0] && matchLines(pattern[1:], lines[1:])
	}
}
