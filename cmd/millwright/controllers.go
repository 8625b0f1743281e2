// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"millwright.dev/pkg/manager"
)

func newControllersCommand() *cobra.Command {
	options := manager.NewOptions()
	logs := logsapi.NewLoggingConfiguration()
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers",
		Long: "Runs the controllers, in a Pod or against the cluster of a kubeconfig. With leader election, any number of these processes\n" +
			"may run; one works, the others stand by.",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := validate(cmd, options, logs); err != nil {
				return err
			}
			config, err := options.Config(buildVersion().Version)
			if err != nil {
				return err
			}
			return manager.Run(cmd.Context(), config)
		},
	}
	groups := options.Flags()
	addLogFlags(groups.FlagSet("logs"), logs)
	addFlags(cmd, groups)
	completeLogFlags(cmd)
	completeListFlag(cmd, "controllers", options.Selectable())
	return cmd
}

// validate returns what is wrong with the command line, and sets up the logs if nothing is.
func validate(cmd *cobra.Command, options interface{ Validate() error }, logs *logsapi.LoggingConfiguration) error {
	if err := options.Validate(); err != nil {
		return misused(cmd, "%w", err)
	}
	if err := logsapi.ValidateAndApply(logs, nil); err != nil {
		return misused(cmd, "%w", err)
	}
	return nil
}

func addLogFlags(fs *pflag.FlagSet, logs *logsapi.LoggingConfiguration) {
	logsapi.AddFlags(logs, fs)
	fs.VisitAll(func(flag *pflag.Flag) {
		// They work only behind a feature gate, for which there is no flag.
		flag.Hidden = strings.HasPrefix(flag.Usage, "[Alpha]")
	})
}
