//go:build node

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the metrics that the components have in their own programs too
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"millwright.dev/hack/cluster/images"
	"millwright.dev/hack/cluster/node"
	"millwright.dev/hack/cluster/statedir"
)

// nodeInitCommand is the name of the command that is the first process of a node.
const nodeInitCommand = "node-init"

// newNodeProcesses returns the hidden commands that the processes of a node execute.
func newNodeProcesses() []*cobra.Command {
	first := dirCommand(nodeInitCommand+" --dir DIR", "Run as the first process of a node", func(_ *cobra.Command, dir statedir.Dir, _ []string) error {
		if err := setProcessName(nodeInitCommand); err != nil {
			return err
		}
		return node.Of(dir).Init()
	})
	first.Hidden = true
	return []*cobra.Command{
		first,
		componentCommand("kubelet", func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		componentCommand("kube-proxy", kubeproxy.NewProxyCommand),
	}
}

// componentCommand returns a command that does what the component's own program does.
func componentCommand(name string, command func() *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "Run " + name,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := setProcessName(name); err != nil {
				return err
			}
			os.Args = append([]string{name}, args...)
			os.Exit(cli.Run(command()))
			return nil
		},
	}
}

// newImageLoadCommand is part of "cluster image".
func newImageLoadCommand() *cobra.Command {
	cmd := dirCommand("load --dir DIR FILE.tar", "Load the images of an archive into the real node of a cluster", func(cmd *cobra.Command, dir statedir.Dir, args []string) error {
		runtime, err := images.At(node.Of(dir).File(node.ContainerdSocket))
		if err != nil {
			return err
		}
		defer runtime.Close()
		return runtime.Load(cmd.Context(), args[0])
	})
	cmd.Args = cobra.ExactArgs(1)
	return cmd
}
