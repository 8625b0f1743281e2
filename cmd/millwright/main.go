// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command millwright is all of Millwright in one binary; each subcommand is a process of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/term"

	"millwright.dev/pkg/manager"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, restoreSignals := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks us to stop, the second one ends the process immediately.
	context.AfterFunc(ctx, restoreSignals)
	if _, err := limitMemory(os.Getenv); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(exitUsage)
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run the command that the arguments say, and return its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newRootCommand()
	cmd.SetArgs(withTwoDashes(args))
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	addCompletionCommand(cmd)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "Error: %v\n", err)
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "millwright",
		Short: "Millwright is a Kubernetes operator",
		Long: "Millwright is a Kubernetes operator: it keeps containers alive, runs apps, moves switches one at a time, runs operations,\n" +
			"hosts operators written in any language, and serves APIs of its own.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misused(cmd, "unknown command %q", args[0])
			}
			return nil
		},
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       buildVersion().String(),
		SilenceErrors: true, // run prints them
		SilenceUsage:  true, // a wall of flags hides what was wrong
	}
	root.Flags().Bool("version", false, "Print the version.") // without cobra's -v, which is the verbosity of the logs elsewhere
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused(cmd, "%w", explained(cmd, err)) })
	server := newAPIServerCommand()
	root.AddCommand(newControllersCommand(), server, newVersionCommand())
	root.PersistentPreRun = func(cmd *cobra.Command, args []string) {
		if cmd.Name() == cobra.ShellCompRequestCmd && len(args) > 1 && args[0] == server.Name() {
			addAPIServerFlags(server)
			server.DisableFlagParsing = false
		}
	}
	return root
}

// explained returns an error of the flags, with what to do about it where that is known.
func explained(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	typed := unknown.GetSpecifiedShortnames()
	if typed == "" {
		if !manager.IsMetacontrollerFlag(unknown.GetSpecifiedName()) {
			return err
		}
		return fmt.Errorf("%w: flags of Metacontroller are for '%s controllers'", err, cmd.Root().Name())
	}
	// Of -help-me, pflag takes -h for the help, and reports the rest.
	for _, flag := range []string{typed, "h" + typed} {
		if name, _, _ := strings.Cut(flag, "="); cmd.Flags().Lookup(name) != nil {
			return fmt.Errorf("unknown flag: -%s: flags are written with two dashes: --%s", flag, flag)
		}
	}
	return err
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// misused says what is wrong with the command line and where to read how it is right.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return usageError{fmt.Errorf("%w; see '%s --help'", fmt.Errorf(format, args...), cmd.CommandPath())}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused(cmd, "'%s' takes no arguments, and was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// addFlags gives the command flags in groups, for a help that can be read.
func addFlags(cmd *cobra.Command, groups cliflag.NamedFlagSets) {
	for _, name := range groups.Order {
		cmd.Flags().AddFlagSet(groups.FlagSets[name])
	}
	columns, _, err := term.TerminalSize(cmd.OutOrStdout())
	if err != nil {
		columns = 0 // not a terminal: do not wrap
	}
	cliflag.SetUsageAndHelpFunc(cmd, groups, columns)
}
