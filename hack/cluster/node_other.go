//go:build node && !linux

package main

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/hack/cluster/machine"
	"millwright.dev/hack/cluster/pki"
)

var errNoNode = errors.New("a real node needs Linux")

// enterNodeNetwork returns an error: this machine cannot have a node.
func enterNodeNetwork(ctx context.Context, out io.Writer, _ int) (*net.TCPListener, error) {
	_, err := machine.Prepare(ctx, out)
	return nil, err
}

func (c *controlPlane) prepareNode(context.Context, *pki.PKI) (net.Listener, error) {
	return nil, errNoNode
}

func (c *controlPlane) startNode(context.Context, kubernetes.Interface) error { return errNoNode }

func newImageLoadCommand() *cobra.Command {
	return &cobra.Command{Use: "load", Hidden: true, RunE: func(*cobra.Command, []string) error { return errNoNode }}
}
