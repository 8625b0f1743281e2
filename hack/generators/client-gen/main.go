// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command client-gen is the client-gen of k8s.io/code-generator, for kinds named like keywords of Go too.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/code-generator/cmd/client-gen/args"
	"k8s.io/code-generator/cmd/client-gen/generators"
	"k8s.io/code-generator/pkg/util"
	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"

	"millwright.dev/hack/generators/keywords"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "client-gen:", err)
		os.Exit(1)
	}
}

func run() error {
	options := args.New()
	options.AddFlags(pflag.CommandLine, "")
	pflag.Parse()
	if err := options.Validate(); err != nil {
		return err
	}
	var inputs []string
	for _, group := range options.Groups {
		for _, version := range group.Versions {
			inputs = append(inputs, version.Package)
		}
	}
	slices.Sort(inputs)
	names := generators.NameSystems(util.PluralExceptionListToMapOrDie(options.PluralExceptions))
	return gengo.Execute(keywords.Avoid(names), generators.DefaultNameSystem(), func(c *generator.Context) []generator.Target {
		return generators.GetTargets(c, options)
	}, gengo.StdBuildTag, inputs)
}
