package node

import (
	"bytes"
	"embed"
	"fmt"
	"path/filepath"
	"text/template"
)

// Addresses, the same in every cluster: each has a network of its own.
const (
	// Address is the node's, and that of the API server for Pods.
	Address = "10.95.0.1"
	// APIPort is the port of the API server there.
	APIPort = 6443
	// PodRange is where Pods get addresses from. Simulated Pods have others.
	PodRange = "10.245.0.0/24"
	// ServiceRange is where ClusterIPs come from.
	ServiceRange = "10.96.0.0/16"
	// APIServiceIP is the ClusterIP of the Service "kubernetes", by which Pods reach the API server.
	APIServiceIP = "10.96.0.1"
	// DNSServiceIP is the ClusterIP of cluster DNS.
	DNSServiceIP = "10.96.0.10"
)

const (
	// Name is the name of the Node.
	Name = "node-1"
	// TypeLabel has the value Type on the node, so that workloads can be kept on or off it.
	TypeLabel = "type"
	// Type is the value of TypeLabel.
	Type = "real"
	// PauseImage is the image that holds a Pod's namespaces.
	PauseImage = "millwright.dev/cluster/pause:1"

	// KubeProxyHealth is the address at which kube-proxy reports its health.
	KubeProxyHealth = "127.0.0.1:10256"

	// Root is where the processes of the node see its folder.
	Root = "/run/node"
)

// Files in the node's folder that others write before the start.
const (
	Serving             = "pki/kubelet" // of kubelet: .crt is the certificate, .key the key
	ClientCA            = "pki/ca.crt"  // that has signed the certificates of kubelet's clients
	KubeletKubeconfig   = "pki/kubelet.kubeconfig"
	KubeProxyKubeconfig = "pki/kube-proxy.kubeconfig"
)

// Files in the node's folder that the processes make.
const (
	// ContainerdSocket is where containerd answers.
	ContainerdSocket = "containerd.sock"
	// PIDFile holds the id of the node's first process, as seen from outside.
	PIDFile = "pid"
)

// Programs is where the programs of the machine are that the configuration names.
type Programs struct {
	CNIPlugins string // their folder
	Runc       string
}

//go:embed config
var templates embed.FS

// render returns the configuration files, by their paths in the node's folder.
func render(cgroup string, programs Programs) (map[string][]byte, error) {
	values := map[string]string{
		"Root":         Root,
		"Name":         Name,
		"Address":      Address,
		"PodRange":     PodRange,
		"DNSServiceIP": DNSServiceIP,
		"PauseImage":   PauseImage,
		"Containerd":   inRoot(ContainerdSocket),
		"Cgroup":       cgroup,
		"CNIPlugins":   programs.CNIPlugins,
		"Runc":         programs.Runc,
		"Serving":      inRoot(Serving),
		"ClientCA":     inRoot(ClientCA),
		"ProxyHealth":  KubeProxyHealth,
		"ProxyClient":  inRoot(KubeProxyKubeconfig),
	}
	files := map[string][]byte{}
	for _, path := range []string{containerdConfig, kubeletConfig, kubeProxyConfig, cniConfig, resolverConfig} {
		t, err := template.New(filepath.Base(path)).Option("missingkey=error").ParseFS(templates, path)
		if err != nil {
			return nil, fmt.Errorf("parsing the template of %s: %w", path, err)
		}
		var content bytes.Buffer
		if err := t.Execute(&content, values); err != nil {
			return nil, fmt.Errorf("filling in %s: %w", path, err)
		}
		files[path] = content.Bytes()
	}
	return files, nil
}

// Paths of the configuration files, both of the templates here and in the node's folder.
const (
	containerdConfig = "config/containerd.toml"
	kubeletConfig    = "config/kubelet.yaml"
	kubeProxyConfig  = "config/kube-proxy.yaml"
	cniConfig        = "config/cni/10-bridge.conflist"
	resolverConfig   = "config/resolv.conf"
)

func inRoot(path string) string { return filepath.Join(Root, path) }
