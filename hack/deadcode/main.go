// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command deadcode prints the functions of this module that no program calls, and those of pkg/testing that no test calls either. It is
// golang.org/x/tools/cmd/deadcode, at the version in go.mod, less what is generated and what hack/deadcode/allowed.txt lists. It exits
// with 1 if there are any, or if a function of the list is used or gone.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const (
	module  = "millwright.dev"
	allowed = "hack/deadcode/allowed.txt"
)

func main() {
	list, err := os.ReadFile(allowed)
	if err != nil {
		fail(err)
	}
	shipped, err := find("./cmd/...", "./hack/...")
	if err != nil {
		fail(err)
	}
	tested, err := find("-test", "./...")
	if err != nil {
		fail(err)
	}
	wrong := judge(merge(shipped, tested), string(list))
	for _, line := range wrong {
		fmt.Println(line)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "deadcode:", err)
	os.Exit(2)
}

// functions are places by the names of functions, as in "pkg/hook.DecodeDecorator" and "pkg/hook.decoder.objects".
type functions map[string]string

// merge returns what no program calls, and of pkg/testing, which only tests import, what no test calls.
func merge(shipped, tested functions) functions {
	dead := functions{}
	for name, place := range shipped {
		if !strings.HasPrefix(name, "pkg/testing/") {
			dead[name] = place
		}
	}
	maps.Copy(dead, tested)
	return dead
}

// judge returns a line for each function that is neither used nor allowed, and for each that is allowed for no reason.
func judge(dead functions, list string) (wrong []string) {
	listed := map[string]bool{}
	for _, line := range strings.Split(list, "\n") {
		name, _, _ := strings.Cut(line, "#")
		if name = strings.TrimSpace(name); name != "" {
			listed[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dead)) {
		if !listed[name] {
			wrong = append(wrong, fmt.Sprintf("%s: %s is never called", dead[name], name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if _, unused := dead[name]; !unused {
			wrong = append(wrong, fmt.Sprintf("%s: %s is called, or does not exist any more: take it off the list", allowed, name))
		}
	}
	return wrong
}

// find returns the functions of this module that cannot be reached from the programs, or with -test the tests, of the packages.
func find(args ...string) (functions, error) {
	// Not go tool, which ignores the flags in GOFLAGS.
	output, err := exec.Command("go", append([]string{"run", "golang.org/x/tools/cmd/deadcode", "-json", "-filter", "^" + module + "/"}, args...)...).Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil, fmt.Errorf("deadcode failed: %s", exit.Stderr)
	}
	if err != nil {
		return nil, err
	}
	return parse(output)
}

// parse reads what deadcode prints with -json.
func parse(output []byte) (functions, error) {
	var packages []struct {
		Path  string
		Funcs []struct {
			Name     string
			Position struct {
				File string
				Line int
			}
			Generated bool
		}
	}
	if err := json.Unmarshal(output, &packages); err != nil {
		return nil, fmt.Errorf("invalid output of deadcode: %w", err)
	}
	dead := functions{}
	for _, p := range packages {
		if strings.HasPrefix(p.Path, module+"/pkg/generated/") || strings.HasPrefix(p.Path, module+"/pkg/apis/") {
			continue
		}
		for _, f := range p.Funcs {
			if !f.Generated {
				dead[strings.TrimPrefix(p.Path, module+"/")+"."+f.Name] = fmt.Sprintf("%s:%d", f.Position.File, f.Position.Line)
			}
		}
	}
	return dead, nil
}
