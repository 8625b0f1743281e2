package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"millwright.dev/hack/cluster/cgroups"
)

// modules are loaded if they are modules and not there yet. What does not work shows in the features.
var modules = []string{"overlay", "bridge", "br_netfilter", "nf_tables", "veth"}

// Look looks at this machine. As root, it also loads modules of the kernel that a node needs.
func Look(ctx context.Context) Facts {
	f := Facts{OS: runtime.GOOS, Root: isRoot(), Programs: map[string]string{}, Kernel: map[string]bool{}}
	if f.Root {
		_ = exec.CommandContext(ctx, "modprobe", append([]string{"--all", "--quiet"}, modules...)...).Run()
	}
	for _, p := range programs {
		if path, err := exec.LookPath(p.name); err == nil {
			f.Programs[p.name] = path
		}
	}
	for _, folder := range cniPlugins.folders {
		if f.CNIPlugins == "" && hasAll(folder, cniPlugins.names) {
			f.CNIPlugins = folder
		}
	}
	_, err := exec.LookPath("apt-get")
	f.APT = err == nil

	f.Kernel[Namespaces] = hasAll("/proc/self/ns", []string{"net", "pid", "mnt", "uts", "ipc"})
	f.Kernel[Overlay] = hasFilesystem("overlay")
	f.Kernel[BridgeNF] = hasAll("/proc/sys/net/bridge", []string{"bridge-nf-call-iptables"})
	f.Kernel[Cgroups] = cgroups.Usable()
	if nft := f.Programs["nft"]; nft != "" {
		f.Kernel[NFTables] = exec.CommandContext(ctx, nft, "list", "tables").Run() == nil
	}
	return f
}

// HoldsLayers returns an error when the layers of images cannot lie in a directory.
func HoldsLayers(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("asking for the file system of %s: %w", dir, err)
	}
	if stat.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("%s lies on an overlay file system, as in a container, and layers of images cannot: choose a directory on a disk", dir)
	}
	return nil
}

// isRoot looks for the capabilities too, which a container may lack.
func isRoot() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() != 0 || unix.Capget(&header, &data[0]) != nil {
		return false
	}
	for _, capability := range []int{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_MKNOD} {
		if data[capability/32].Effective&(1<<(capability%32)) == 0 {
			return false
		}
	}
	return true
}

func hasAll(folder string, names []string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

func hasFilesystem(name string) bool {
	content, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == name {
			return true
		}
	}
	return false
}
