package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	componentversion "k8s.io/component-base/version"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the components in this binary",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "Kubernetes %s (%s)\netcd       v%s\nGo         %s\n",
				componentversion.Get().GitVersion, contents, etcdversion.Version, runtime.Version())
		},
	}
}
