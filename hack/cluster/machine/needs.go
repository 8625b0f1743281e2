// Package machine checks whether the machine has what a real node needs, and installs what Debian has packages for.
package machine

import (
	"fmt"
	"slices"
	"strings"
)

// Facts are what was found on a machine.
type Facts struct {
	// OS is the operating system, as in runtime.GOOS.
	OS string
	// Root is true if this is user 0 with the capabilities that root usually has.
	Root bool
	// Programs are the paths of the programs that were found, by name.
	Programs map[string]string
	// CNIPlugins is the folder of the CNI plugins, empty if no folder has all that are needed.
	CNIPlugins string
	// Kernel has the features in kernelFeatures that the kernel has, by name.
	Kernel map[string]bool
	// APT is true if packages can be installed by apt-get.
	APT bool
}

// program is a program that a node runs.
type program struct{ name, pkg, why string }

var programs = []program{
	{"containerd", "containerd", "runs containers for kubelet"},
	{"containerd-shim-runc-v2", "containerd", "is the parent of a Pod's containers"},
	{"ctr", "containerd", "brings images to containerd"},
	{"runc", "runc", "starts containers"},
	{"nft", "nftables", "makes ClusterIPs work, for kube-proxy"},
}

// cniPlugins connect Pods to the network of the node.
var cniPlugins = struct {
	names   []string
	folders []string // where distributions and the upstream archive put them
	pkg     string
}{
	[]string{"bridge", "host-local", "loopback"},
	[]string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"},
	"containernetworking-plugins",
}

// Kernel features.
const (
	Namespaces = "namespaces"
	Overlay    = "overlayfs"
	NFTables   = "nftables"
	BridgeNF   = "bridge netfilter"
	Cgroups    = "cgroups"
)

// kernelFeatures are all of them, with what to do where one is missing.
var kernelFeatures = []struct{ name, missing string }{
	{Namespaces, "the kernel has no network, PID, mount, UTS or IPC namespaces"},
	{Overlay, "the kernel has no overlayfs: try modprobe overlay"},
	{NFTables, "the kernel refuses nftables: try modprobe nf_tables; inside a container it has to be allowed from outside"},
	{BridgeNF, "the kernel does not filter what crosses a bridge: try modprobe br_netfilter"},
	{Cgroups, "in /sys/fs/cgroup are no writable cgroups with the controllers cpu, memory and pids"},
}

// Obstacles returns why the machine cannot have a node, whatever is installed.
func Obstacles(f Facts) []string {
	if f.OS != "linux" {
		return []string{fmt.Sprintf("this is %s, and a node needs Linux", f.OS)}
	}
	if !f.Root {
		return []string{"a node needs root with all usual capabilities: it makes namespaces, mounts and cgroups"}
	}
	var obstacles []string
	for _, feature := range kernelFeatures {
		// nft is needed to ask for it.
		if !f.Kernel[feature.name] && (feature.name != NFTables || f.Programs["nft"] != "") {
			obstacles = append(obstacles, feature.missing)
		}
	}
	if packages := Packages(f); len(packages) > 0 && !f.APT {
		obstacles = append(obstacles, fmt.Sprintf("missing are %s, and there is no apt-get to install them", strings.Join(Missing(f), ", ")))
	}
	return obstacles
}

// Missing returns the programs that have to be installed, each with its purpose.
func Missing(f Facts) []string {
	var missing []string
	for _, p := range programs {
		if f.Programs[p.name] == "" {
			missing = append(missing, fmt.Sprintf("%s (%s)", p.name, p.why))
		}
	}
	if f.CNIPlugins == "" {
		missing = append(missing, fmt.Sprintf("the CNI plugins %s (connect Pods)", strings.Join(cniPlugins.names, ", ")))
	}
	return missing
}

// Packages returns the Debian packages that have what is missing.
func Packages(f Facts) []string {
	var packages []string
	for _, p := range programs {
		if f.Programs[p.name] == "" && !slices.Contains(packages, p.pkg) {
			packages = append(packages, p.pkg)
		}
	}
	if f.CNIPlugins == "" {
		packages = append(packages, cniPlugins.pkg)
	}
	return packages
}
