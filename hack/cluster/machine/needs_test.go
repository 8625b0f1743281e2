package machine

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// complete is a machine that lacks nothing, changed by the functions.
func complete(changes ...func(*Facts)) Facts {
	f := Facts{OS: "linux", Root: true, Programs: map[string]string{}, CNIPlugins: "/usr/lib/cni", Kernel: map[string]bool{}, APT: true}
	for _, p := range programs {
		f.Programs[p.name] = "/usr/bin/" + p.name
	}
	for _, feature := range kernelFeatures {
		f.Kernel[feature.name] = true
	}
	for _, change := range changes {
		change(&f)
	}
	return f
}

func without(names ...string) func(*Facts) {
	return func(f *Facts) {
		for _, name := range names {
			delete(f.Programs, name)
		}
	}
}

func lacking(feature string) func(*Facts) {
	return func(f *Facts) { f.Kernel[feature] = false }
}

func noAPT(f *Facts) { f.APT = false }

func TestObstaclesAndMissingPrograms(t *testing.T) {
	for name, tc := range map[string]struct {
		facts Facts
		want  []string // each in the obstacle of the same place
	}{
		"nothing":                     {complete(), nil},
		"another system":              {Facts{OS: "darwin"}, []string{"this is darwin"}},
		"not root":                    {complete(func(f *Facts) { f.Root = false }), []string{"needs root"}},
		"namespaces":                  {complete(lacking(Namespaces)), []string{"namespaces"}},
		"several":                     {complete(lacking(Overlay), lacking(Cgroups)), []string{"modprobe overlay", "/sys/fs/cgroup"}},
		"bridges that are filtered":   {complete(lacking(BridgeNF)), []string{"modprobe br_netfilter"}},
		"nftables in the kernel":      {complete(lacking(NFTables)), []string{"modprobe nf_tables"}},
		"nft, so that is not known":   {complete(lacking(NFTables), without("nft")), nil},
		"a program that comes by APT": {complete(without("runc")), nil},
		"a program, and APT":          {complete(without("runc"), noAPT), []string{"runc (starts containers), and there is no apt-get"}},
		"CNI plugins, and APT":        {complete(func(f *Facts) { f.CNIPlugins = "" }, noAPT), []string{"the CNI plugins bridge, host-local, loopback"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Obstacles(tc.facts)
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want it to contain %q", got[i], want)
				}
			}
		})
	}
}

func TestMissingPackagesAreInstalledOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		facts Facts
		want  []string
	}{
		"nothing missing":    {complete(), nil},
		"one program":        {complete(without("nft")), []string{"nftables"}},
		"two of one package": {complete(without("ctr", "containerd")), []string{"containerd"}},
		"everything": {
			complete(func(f *Facts) {
				maps.DeleteFunc(f.Programs, func(string, string) bool { return true })
				f.CNIPlugins = ""
			}),
			[]string{"containerd", "runc", "nftables", "containernetworking-plugins"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Packages(tc.facts)); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}
		})
	}
}
