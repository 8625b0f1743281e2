// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const text = "# Title\n\n```\n$ echo one; echo two\none\ntwo\n\n$ printf 'a   8s\\n'\na 2m13s\n```\n\n$ no command\n\n```yaml\nkind: Pod\n```\n"

func TestParse(t *testing.T) {
	steps := parse(text, "")
	if len(steps) != 2 || steps[0].line != 4 || steps[0].command != "echo one; echo two" || strings.Join(steps[0].output, ",") != "one,two" {
		t.Errorf("got %+v, want the two commands of the first block", steps)
	}
}

func TestParseSection(t *testing.T) {
	const sections = "# A\n```\n$ a\n```\n## The second one\n```\n$ b\n# no heading\n```\n## C\n```\n$ c\n```\n"
	steps := parse(sections, "the-second-one")
	if len(steps) != 1 || steps[0].command != "b" || len(steps[0].output) != 1 {
		t.Errorf("got %+v, want the command of the second section", steps)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		name, file, printed string
		want                bool
	}{
		{"equal", "a\nb", "a\nb\n", true},
		{"another word", "a\nb", "a\nc\n", false},
		{"a line more", "a", "a\nb\n", false},
		{"a line less", "a\nb", "a\n", false},
		{"nothing", "", "", true},
		{"spaces and empty lines", "NAME AGE\n\nweb 1s", "NAME   AGE\nweb    1s\n", true},
		{"ages", "web 8s\npanel 2m", "web 1m13s\npanel 3d\n", true},
		{"an age is not a number", "web 8s", "web 8\n", false},
		{"times", "web 2026-11-23T03:26:53Z", "web 2027-01-02T15:04:05Z", true},
		{"hashes", "farm-hello-675c76c6f5-6tcwj 1", "farm-hello-5bd6cf7c4d-xk2vl 1", true},
		{"any lines in front", "...\nb", "x\ny\nb\n", true},
		{"any lines, of which there are none", "a\n...\nb", "a\nb\n", true},
		{"any lines, and another end", "a\n...\nb", "a\nx\nc\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (step{output: normalize(c.file)}).matches(c.printed); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAppearsIn(t *testing.T) {
	s := step{output: normalize("uuu\nduu\nddd")}
	if !s.appearsIn("uuu\nuuu\nduu\nddu\nddd\n") {
		t.Error("lines in their order, with others between: got false, want true")
	}
	if s.appearsIn("ddd\nduu\nuuu\n") {
		t.Error("lines in another order: got true, want false")
	}
}

func TestRun(t *testing.T) {
	for _, step := range parse(text, "") {
		if err := run(t.Context(), step); err != nil {
			t.Error(err)
		}
	}
	if err := run(t.Context(), step{command: "echo three; exit 1", output: []string{"three"}}); err != nil {
		t.Errorf("command that fails as in the file: got %v, want no error", err)
	}
	err := run(t.Context(), step{command: "echo three; exit 1", output: []string{"four"}})
	if err == nil || !strings.Contains(err.Error(), "three") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("command that fails: got %v, want its output and its exit status", err)
	}
	if err := run(t.Context(), step{command: "exit 1"}); err == nil {
		t.Error("command that fails and prints nothing: got no error, want one")
	}
}

func TestWatchIsEnded(t *testing.T) {
	script := filepath.Join(t.TempDir(), "kubectl --watch")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho one\necho two\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := startWatch(t.Context(), step{command: "'" + script + "'", output: []string{"one", "two"}}).await(); err != nil {
		t.Error(err)
	}
}

// What a command changes for a moment only is seen by the watch that the file has after it.
func TestAWatchStartsBeforeTheCommandInFrontOfIt(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(state, "down\n")
	write(filepath.Join(dir, "kubectl --watch"), "#!/bin/sh\nexec tail -n +1 -f "+state+"\n")
	watching := step{command: "'" + filepath.Join(dir, "kubectl --watch") + "'", output: []string{"up", "down"}}
	steps := []step{{command: "echo up >>" + state + "; sleep 0.2; echo down >>" + state}, watching}
	var announced []string
	if failed, err := runAll(t.Context(), steps, func(s step) { announced = append(announced, s.command) }); err != nil {
		t.Errorf("%s: %v", failed.command, err)
	}
	if len(announced) != 2 || announced[1] != watching.command {
		t.Errorf("announced %q", announced)
	}

	write(filepath.Join(dir, "kubectl --watch"), "#!/bin/sh\necho up\nexit 1\n")
	if _, err := runAll(t.Context(), steps, func(step) {}); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("watch that ends early: got %v, want its exit status", err)
	}
}
