package main

import (
	"github.com/spf13/cobra"

	"millwright.dev/hack/cluster/statedir"
)

// dirCommand returns a command with a flag --dir, the directory of a cluster.
func dirCommand(use, short string, run func(cmd *cobra.Command, dir statedir.Dir, args []string) error) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := statedir.At(path)
			if err != nil {
				return err
			}
			return run(cmd, dir, args)
		},
	}
	cmd.Flags().StringVar(&path, "dir", "", "directory of the cluster")
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		panic(err)
	}
	return cmd
}
