// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manifests writes what follows from the table of controllers and from the CRDs into the files in manifests: the CRDs of
// kustomization.yaml, the --controllers of each Deployment, and the rights of users to our kinds in 22-users.yaml. All else in these files is
// written by hand, and stays.
//
// With the argument "deployments" it prints a line for each Deployment instead: its name, and the folders with the RBAC markers of its
// controllers.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"millwright.dev/pkg/manager"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	table := manager.Descriptors()
	switch {
	case len(args) == 0:
		return write("manifests", table)
	case slices.Equal(args, []string{"deployments"}):
		markers := byDeployment(table, manager.Descriptor.Markers)
		for _, name := range slices.Sorted(maps.Keys(markers)) {
			fmt.Println(name, strings.Join(markers[name], " "))
		}
		return nil
	default:
		return fmt.Errorf("invalid arguments %q: must be none or deployments", args)
	}
}

// byDeployment returns what the function returns for the controllers of each Deployment, in the order of the table.
func byDeployment(table []manager.Descriptor, of func(manager.Descriptor) string) map[string][]string {
	found := map[string][]string{}
	for _, d := range table {
		found[d.Deployment] = append(found[d.Deployment], of(d))
	}
	return found
}

// write the generated parts of the files below the folder.
func write(dir string, table []manager.Descriptor) error {
	crds, err := readCRDs(filepath.Join(dir, "00-crds"))
	if err != nil {
		return err
	}
	if err := edit(filepath.Join(dir, "kustomization.yaml"), func(text string) (string, error) { return withCRDs(text, crds) }); err != nil {
		return err
	}
	controllers := byDeployment(table, func(d manager.Descriptor) string { return d.Name })
	for _, name := range slices.Sorted(maps.Keys(controllers)) {
		file := filepath.Join(dir, "30-"+name+".yaml")
		if err := edit(file, func(text string) (string, error) { return withControllers(text, controllers[name]) }); err != nil {
			return err
		}
	}
	return edit(filepath.Join(dir, "22-users.yaml"), func(text string) (string, error) { return withRights(text, crds, table) })
}

func edit(file string, change func(text string) (string, error)) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := change(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// withCRDs lists the CRDs where the first of them is listed.
func withCRDs(text string, crds []crd) (string, error) {
	var files []string
	for _, c := range crds {
		files = append(files, "- 00-crds/"+c.file)
	}
	return replaceLines(text, "- 00-crds/", files)
}

// withControllers runs these controllers.
func withControllers(text string, controllers []string) (string, error) {
	const flag = "        - --controllers="
	return replaceLines(text, flag, []string{flag + strings.Join(controllers, ",")})
}

// replaceLines replaces the lines that begin with the prefix, of which there is at least one.
func replaceLines(text, prefix string, lines []string) (string, error) {
	var kept []string
	first := -1
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case !strings.HasPrefix(line, prefix):
			kept = append(kept, line)
		case first < 0:
			first = len(kept)
		}
	}
	if first < 0 {
		return "", fmt.Errorf("no line begins with %q: write one, and it will be kept up to date", prefix)
	}
	return strings.Join(slices.Insert(kept, first, lines...), "\n"), nil
}
