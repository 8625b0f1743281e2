package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"millwright.dev/hack/cluster/machine"
	"millwright.dev/hack/cluster/node"
	"millwright.dev/hack/cluster/statedir"
)

// newNodeCommands returns the commands for real nodes, which both builds have, and those of this build.
func newNodeCommands() []*cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Prepare this machine for clusters with a real node, and clean up after one",
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "prepare",
			Short: "Install what a real node needs, or report why this machine cannot have one",
			Long: `Install what a real node needs and this machine lacks, from Debian's packages, or report why this machine cannot have one.
"cluster up --node" does the same.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if _, err := machine.Prepare(cmd.Context(), cmd.OutOrStdout()); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "This machine can have a real node.")
				return nil
			},
		},
		dirCommand("clean --dir DIR", "Remove what a node has left outside the directory of its cluster after all its processes were killed", func(_ *cobra.Command, dir statedir.Dir, _ []string) error {
			lock, err := dir.Lock()
			if err != nil {
				return err
			}
			defer lock.Close()
			return node.Of(dir).Clean()
		}),
	)
	return append([]*cobra.Command{cmd}, newNodeProcesses()...)
}
