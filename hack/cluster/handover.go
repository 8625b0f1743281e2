//go:build !node

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/hack/cluster/machine"
	"millwright.dev/hack/cluster/pki"
)

// contents is what this build has.
const contents = "control plane and kubectl"

// nodeBinary is this program with what only a real node needs: kubelet, kube-proxy, the network of its own, images. Most users never need
// it, and it takes long to compile. build.sh node puts it next to this program.
const nodeBinary = "cluster-node"

// errNotHere is returned where this process should have become nodeBinary before.
var errNotHere = errors.New("this build has no real node")

// handOver executes nodeBinary with the arguments of this process. It returns only on an error.
func handOver() error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	binary := filepath.Join(filepath.Dir(own), nodeBinary)
	// The name stays: it is what the messages and ps show.
	err = syscall.Exec(binary, os.Args, os.Environ())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the program of a real node is missing: run hack/cluster/build.sh node (%s: %w)", binary, err)
	}
	return fmt.Errorf("executing %s: %w", binary, err)
}

// enterNodeNetwork hands over to nodeBinary, if this machine can have a node.
func enterNodeNetwork(ctx context.Context, out io.Writer, _ int) (*net.TCPListener, error) {
	if _, err := machine.Prepare(ctx, out); err != nil {
		return nil, err
	}
	return nil, handOver()
}

func (c *controlPlane) prepareNode(context.Context, *pki.PKI) (net.Listener, error) {
	return nil, errNotHere
}

func (c *controlPlane) startNode(context.Context, kubernetes.Interface) error { return errNotHere }

// newImageCommand returns a command whose subcommands and flags are those of nodeBinary.
func newImageCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "image",
		Short:              "Make images of binaries, and load images into the node of a cluster",
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return handOver() },
	}
}

func newNodeProcesses() []*cobra.Command { return nil }
