// Command cluster is a Kubernetes control plane for development and tests in one binary: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler run in one process, on loopback, with all their state in one directory. The same
// binary is kubectl of the same version. Built with the tag node, it is kubelet and kube-proxy of a real node as well.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs have time zones, also where the system has no database of them

	"github.com/spf13/cobra"
)

func main() {
	if filepath.Base(os.Args[0]) == "kubectl" {
		kubectl(os.Args[1:])
		return
	}
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A Kubernetes control plane for development and tests in one process",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newUpCommand(), newWaitCommand(), newKubectlCommand(), newVersionCommand())
	root.AddCommand(newImageCommand())
	root.AddCommand(newNodeCommands()...)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(root.ErrOrStderr(), "cluster:", err)
		os.Exit(1)
	}
}
