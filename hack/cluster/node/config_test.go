package node

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	proxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	proxyscheme "k8s.io/kubernetes/pkg/proxy/apis/config/scheme"
)

func rendered(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := render("/test", Programs{CNIPlugins: "/plugins", Runc: "/bin/runc"})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestKubeletConfigurationIsValid(t *testing.T) {
	_, codecs, err := kubeletscheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		t.Fatal(err)
	}
	object, _, err := codecs.UniversalDecoder().Decode(rendered(t)[kubeletConfig], nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := object.(*kubeletconfig.KubeletConfiguration)
	if config.CgroupRoot != "/test" {
		t.Errorf("the cgroup of Pods is %q", config.CgroupRoot)
	}
	if config.ContainerRuntimeEndpoint != "unix:///run/node/containerd.sock" {
		t.Errorf("containerd is looked for at %q", config.ContainerRuntimeEndpoint)
	}
	if config.Authentication.Anonymous.Enabled || !config.Authentication.Webhook.Enabled ||
		config.Authorization.Mode != kubeletconfig.KubeletAuthorizationModeWebhook {
		t.Errorf("not everybody has to authenticate: %+v, %+v", config.Authentication, config.Authorization)
	}
}

func TestKubeProxyConfigurationIsValid(t *testing.T) {
	object, _, err := proxyscheme.Codecs.UniversalDecoder().Decode(rendered(t)[kubeProxyConfig], nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := object.(*proxyconfig.KubeProxyConfiguration)
	if config.Mode != proxyconfig.ProxyModeNFTables || config.MinSyncPeriod.Duration != 100*time.Millisecond {
		t.Errorf("mode %s, at least %v between changes", config.Mode, config.MinSyncPeriod)
	}
	if config.HealthzBindAddress != KubeProxyHealth {
		t.Errorf("it reports its health at %q", config.HealthzBindAddress)
	}
}

func TestThePluginsUnderstandTheirConfiguration(t *testing.T) {
	var config struct {
		Plugins []struct {
			Type string
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	if err := json.Unmarshal(rendered(t)[cniConfig], &config); err != nil {
		t.Fatal(err)
	}
	if subnet := config.Plugins[0].IPAM.Ranges[0][0].Subnet; subnet != PodRange {
		t.Errorf("Pods get addresses from %q", subnet)
	}
}

func TestContainerdUnderstandsItsConfiguration(t *testing.T) {
	program, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("containerd is not installed")
	}
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, rendered(t)[containerdConfig], 0o600); err != nil {
		t.Fatal(err)
	}
	// It prints its whole configuration, with what it has taken from the file.
	out, err := exec.Command(program, "--config", path, "config", "dump").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`BinaryName = "/bin/runc"`, `bin_dir = "/plugins"`, `sandbox_image = "` + PauseImage + `"`, `address = "/run/node/containerd.sock"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("containerd does not have %s:\n%s", want, out)
		}
	}
}

func TestTheClusterIPsLieInTheirRange(t *testing.T) {
	_, services, err := net.ParseCIDR(ServiceRange)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{APIServiceIP, DNSServiceIP} {
		if !services.Contains(net.ParseIP(address)) {
			t.Errorf("%s is not in %s", address, ServiceRange)
		}
	}
}

func TestNodeIsReady(t *testing.T) {
	start := time.Now()
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(start)}
	with := func(change func(*corev1.NodeCondition)) corev1.NodeCondition {
		changed := ready
		change(&changed)
		return changed
	}
	for name, tc := range map[string]struct {
		condition corev1.NodeCondition
		taints    []corev1.Taint
		want      bool
	}{
		"ready":           {ready, nil, true},
		"cordoned":        {ready, []corev1.Taint{{Key: corev1.TaintNodeUnschedulable}}, true},
		"not ready":       {with(func(c *corev1.NodeCondition) { c.Status = corev1.ConditionFalse }), nil, false},
		"before the stop": {with(func(c *corev1.NodeCondition) { c.LastHeartbeatTime = metav1.NewTime(start.Add(-time.Second)) }), nil, false},
		"still tainted":   {ready, []corev1.Taint{{Key: corev1.TaintNodeNotReady}}, false},
		"another one":     {with(func(c *corev1.NodeCondition) { c.Type = corev1.NodeDiskPressure }), nil, false},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: tc.taints}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{tc.condition}}}
		if got := IsReady(node, start); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
