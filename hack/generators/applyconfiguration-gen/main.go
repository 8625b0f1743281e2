// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command applyconfiguration-gen is that of k8s.io/code-generator, for kinds named like keywords of Go too.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/code-generator/cmd/applyconfiguration-gen/args"
	"k8s.io/code-generator/cmd/applyconfiguration-gen/generators"
	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"

	"millwright.dev/hack/generators/keywords"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "applyconfiguration-gen:", err)
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
	return gengo.Execute(keywords.Avoid(generators.NameSystems()), generators.DefaultNameSystem(), func(c *generator.Context) []generator.Target {
		return generators.GetTargets(c, options)
	}, gengo.StdBuildTag, pflag.Args())
}
