// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"
	logsapi "k8s.io/component-base/logs/api/v1"

	"millwright.dev/pkg/apiserver"
)

// newAPIServerCommand has no flags yet: there are many, and they register feature gates, admission plugins and more, which the
// other subcommands should not have to pay for. They are added when it is this one that runs, or is asked for help.
func newAPIServerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apiserver",
		Short: "Serve Llamas and FarmPods as an aggregated API",
		Long: "Serves the API group farm.example.com behind the aggregation layer of kube-apiserver: Llamas, which are kept as records there,\n" +
			"and FarmPods, a live view of Pods. Any number of these processes may run, and all of them serve.",
		DisableFlagParsing: true, // until there are flags
		ValidArgsFunction:  cobra.NoFileCompletions,
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		addAPIServerFlags(cmd)
		cmd.HelpFunc()(cmd, args)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, logs := addAPIServerFlags(cmd)
		cmd.DisableFlagParsing = false
		if err := cmd.ParseFlags(args); err != nil {
			return cmd.FlagErrorFunc()(cmd, err)
		}
		if help, err := cmd.Flags().GetBool("help"); err != nil || help {
			return cmd.Help()
		}
		if err := noArgs(cmd, cmd.Flags().Args()); err != nil {
			return err
		}
		return runAPIServer(cmd, options, logs)
	}
	return cmd
}

// addAPIServerFlags adds the flags, and returns what they set. It replaces the help function by one that shows them.
func addAPIServerFlags(cmd *cobra.Command) (*apiserver.Options, *logsapi.LoggingConfiguration) {
	options, logs := apiserver.NewOptions(), logsapi.NewLoggingConfiguration()
	groups := options.Flags()
	addLogFlags(groups.FlagSet("logs"), logs)
	addFlags(cmd, groups)
	completeLogFlags(cmd)
	completeFlag(cmd, "llama-storage", apiserver.Storages()...)
	return options, logs
}

func runAPIServer(cmd *cobra.Command, options *apiserver.Options, logs *logsapi.LoggingConfiguration) error {
	if err := validate(cmd, options, logs); err != nil {
		return err
	}
	config, err := options.Config(buildVersion().Version)
	if err != nil {
		return err
	}
	return apiserver.Run(cmd.Context(), config)
}
