// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// addCompletionCommand adds cobra's command that prints completion scripts, with an error for a shell that has none. They are printed to
// the output that root has now.
func addCompletionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err) // cobra has not added it
	}
	var shells []string
	for _, shell := range completion.Commands() {
		shells = append(shells, shell.Name())
	}
	completion.Args = cobra.ArbitraryArgs
	completion.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return misused(cmd, "invalid shell %q: must be one of %s", args[0], strings.Join(shells, ", "))
	}
}

// completeFlag makes the shell complete the values of a flag.
func completeFlag(cmd *cobra.Command, name string, values ...string) {
	complete(cmd, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeLogFlags(cmd *cobra.Command) {
	completeFlag(cmd, "logging-format", "text", "json")
}

// completeListFlag makes the shell complete the last item of a list that is separated by commas.
func completeListFlag(cmd *cobra.Command, name string, items []string) {
	complete(cmd, name, func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var completions []cobra.Completion
		for _, item := range items {
			if !slices.Contains(strings.Split(before, ","), item) && strings.HasPrefix(before+item, typed) {
				completions = append(completions, before+item)
			}
		}
		return completions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

func complete(cmd *cobra.Command, flag string, function cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, function); err != nil {
		panic(err) // there is no such flag
	}
}
