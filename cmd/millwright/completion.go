// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

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
