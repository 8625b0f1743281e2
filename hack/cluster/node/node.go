package node

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"millwright.dev/hack/cluster/statedir"
)

// Node is the node of one cluster.
type Node struct {
	dir statedir.Dir
}

// Of returns the node of the cluster in a directory.
func Of(dir statedir.Dir) Node { return Node{dir: dir} }

// File is the path of a file in the node's folder.
func (n Node) File(path string) string { return filepath.Join(n.dir.Node(), path) }

// cgroup is the cgroup of all Pods, relative to the root of each hierarchy. It is made from the directory's path: it differs
// between clusters, and is the same at the next start.
func (n Node) cgroup() string {
	return fmt.Sprintf("/millwright-%.4x", sha256.Sum256([]byte(n.dir.Path())))
}

// The components of the node, each a process of its own and with a log of its own.
const (
	containerd = "containerd"
	kubelet    = "kubelet"
	kubeProxy  = "kube-proxy"
)
