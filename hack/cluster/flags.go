package main

import (
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// parseFlags configures a component by its own flags, the interface that its documentation describes: the component relies on
// their defaults and validation.
func parseFlags(component string, known cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet(component, pflag.ContinueOnError)
	for _, set := range known.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}
