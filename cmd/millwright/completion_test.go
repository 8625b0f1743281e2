// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestEveryShellGetsItsCompletion(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o default", "zsh": "#compdef millwright", "fish": "complete -c millwright", "powershell": "Register-ArgumentCompleter"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"completion", shell}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), want) {
			t.Errorf("%s: exit code %d, %q is missing; %s", shell, code, want, stderr.String())
		}
	}
	var stdout bytes.Buffer
	run(t.Context(), []string{"--help"}, &stdout, &stdout)
	if !strings.Contains(stdout.String(), "\n  completion ") || !strings.Contains(stdout.String(), "--version") {
		t.Errorf("the help names no completion, or no --version:\n%s", stdout.String())
	}
}

func TestCompletion(t *testing.T) {
	for _, tc := range []struct {
		typed  string
		offers []string
		not    []string
	}{
		{"", []string{"apiserver", "completion", "controllers", "version"}, []string{"__complete"}},
		{"controllers --lead", []string{"--leader-elect", "--leader-elect-lease-name"}, []string{"--kubeconfig"}},
		{"controllers --controllers ", []string{"*", "machine", "-machine"}, nil},
		{"controllers --controllers *,-m", []string{"*,-machine"}, []string{"*,machine", "*,-helloapp"}},
		{"controllers --controllers machine,", []string{"machine,helloapp"}, []string{"machine,machine"}},
		{"controllers --logging-format ", []string{"text", "json"}, nil},
		{"apiserver --llama", []string{"--llama-storage"}, []string{"--leader-elect"}},
		{"apiserver --llama-storage ", []string{"records", "memory"}, nil},
		{"version -o ", []string{"json", "yaml"}, nil},
	} {
		t.Run(tc.typed, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), append([]string{"__complete"}, strings.Split(tc.typed, " ")...), &stdout, &stderr); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr.String())
			}
			var offered []string
			for line := range strings.Lines(stdout.String()) {
				value, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				offered = append(offered, value)
			}
			for _, want := range tc.offers {
				if !slices.Contains(offered, want) {
					t.Errorf("%q is not among %q", want, offered)
				}
			}
			for _, unwanted := range tc.not {
				if slices.Contains(offered, unwanted) {
					t.Errorf("%q is among %q", unwanted, offered)
				}
			}
		})
	}
}
