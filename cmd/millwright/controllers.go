// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/flagerrors"
	"millwright.dev/pkg/manager"
)

func newControllersCommand() *cobra.Command {
	options := manager.NewOptions()
	logs := logsapi.NewLoggingConfiguration()
	metacontroller := manager.NewMetacontrollerFlags()
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers",
		Long: "Runs the controllers, in a Pod or against the cluster of a kubeconfig. With leader election, any number of these processes\n" +
			"may run; one works, the others stand by.",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Errors in the translation are reported together with those in the options.
			translated, err := metacontroller.Translate(cmd.Flags())
			if err := validate(cmd, translatedOptions{options, err}, logs); err != nil {
				return err
			}
			for _, flag := range translated {
				flag.Log(klog.FromContext(cmd.Context()))
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
	cmd.Flags().AddFlagSet(metacontroller.Flags()) // hidden, so that they need no group
	completeLogFlags(cmd)
	completeListFlag(cmd, "controllers", options.Selectable())
	return cmd
}

// translatedOptions are options of which some were set by flags of Metacontroller.
type translatedOptions struct {
	*manager.Options
	// err is what is wrong with those flags.
	err error
}

// Validate returns all that is wrong, in one line.
func (o translatedOptions) Validate() error {
	return flagerrors.Join([]error{o.err, o.Options.Validate()})
}

// withTwoDashes returns the arguments with two dashes before each flag of Metacontroller, where one is enough.
func withTwoDashes(args []string) []string {
	if len(args) == 0 || args[0] != "controllers" {
		return args
	}
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && manager.IsMetacontrollerFlag(name) {
			args[i] = "-" + arg
		}
	}
	return args
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
