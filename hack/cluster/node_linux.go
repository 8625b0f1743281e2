//go:build node

package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"

	"millwright.dev/hack/cluster/dns"
	"millwright.dev/hack/cluster/images"
	"millwright.dev/hack/cluster/machine"
	"millwright.dev/hack/cluster/netns"
	"millwright.dev/hack/cluster/node"
	"millwright.dev/hack/cluster/pki"
	"millwright.dev/hack/cluster/ports"
)

// enterNodeNetwork prepares the machine for a node, opens the API server's listener, and executes this program again in a
// network of its own. There it returns the listener.
func enterNodeNetwork(ctx context.Context, out io.Writer, port int) (*net.TCPListener, error) {
	listener, err := netns.Inherited()
	if listener != nil || err != nil {
		return listener, errors.Join(err, setProcessName("cluster"))
	}
	// Here packages can still be downloaded.
	if _, err := machine.Prepare(ctx, out); err != nil {
		return nil, err
	}
	if _, err := nodeImages(); err != nil {
		return nil, err
	}
	if listener, err = ports.Listen(port); err != nil {
		return nil, err
	}
	return nil, netns.Enter(listener)
}

// setProcessName sets what ps and pgrep show as the name of the process. The default is that of the executed file, which here is
// /proc/self/exe.
func setProcessName(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return fmt.Errorf("setting the name of the process: %w", err)
	}
	return nil
}

// nodeImages returns the archives of images that every node has. build.sh puts them next to this program.
func nodeImages() ([]string, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var archives []string
	for _, name := range []string{"pause.tar", "coredns.tar"} {
		archive := filepath.Join(filepath.Dir(binary), "node-images", name)
		if _, err := os.Stat(archive); err != nil {
			return nil, fmt.Errorf("an image that the node needs is missing: run hack/cluster/build.sh node (%w)", err)
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// prepareNode prepares the network and the files of the node, and returns the API server's listener, for this machine and for Pods.
func (c *controlPlane) prepareNode(ctx context.Context, certificates *pki.PKI) (net.Listener, error) {
	if err := machine.HoldsLayers(c.dir.Path()); err != nil {
		return nil, err
	}
	if err := netns.Configure(node.Address, node.ServiceRange); err != nil {
		return nil, err
	}
	found := machine.Look(ctx)
	n := node.Of(c.dir)
	if err := n.Prepare(node.Programs{CNIPlugins: found.CNIPlugins, Runc: found.Programs["runc"]}); err != nil {
		return nil, err
	}
	if err := c.writeNodeCredentials(n, certificates); err != nil {
		return nil, err
	}
	// For Pods, always at the same port: the Service's endpoint is not updated when the API server starts again at another port.
	forPods, err := listenInside(node.Address, node.APIPort)
	if err != nil {
		return nil, err
	}
	// For the components, so that one URL is valid on either side.
	forComponents, err := listenInside(ports.Loopback, ports.Of(c.listener))
	if err != nil {
		return nil, errors.Join(err, forPods.Close())
	}
	return ports.Join(forPods, forComponents, c.listener), nil
}

// listenInside listens in the network of the node.
func listenInside(address string, port int) (*net.TCPListener, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(address), Port: port})
	if err != nil {
		return nil, fmt.Errorf("listening in the network of the node: %w", err)
	}
	return listener, nil
}

// writeNodeCredentials writes the credentials with which the node and the API server authenticate each other.
func (c *controlPlane) writeNodeCredentials(n node.Node, certificates *pki.PKI) error {
	authority, err := os.ReadFile(certificates.Certificate("ca"))
	if err != nil {
		return err
	}
	if err := n.Write(node.ClientCA, authority); err != nil {
		return err
	}
	kubelet := pki.User{Name: "system:node:" + node.Name, Groups: []string{"system:nodes"}}
	for path, user := range map[string]pki.User{
		node.KubeletKubeconfig:   kubelet,
		node.KubeProxyKubeconfig: {Name: "system:kube-proxy"},
	} {
		if err := certificates.WriteKubeconfig(n.File(path), c.url, user); err != nil {
			return err
		}
	}
	err = certificates.Issue(n.File(node.Serving), certutil.Config{
		CommonName:   kubelet.Name,
		Organization: kubelet.Groups,
		AltNames:     certutil.AltNames{DNSNames: []string{node.Name}, IPs: []net.IP{net.ParseIP(node.Address)}},
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	return certificates.Issue(filepath.Join(c.dir.PKI(), kubeletClient), certutil.Config{
		CommonName:   "kube-" + kubeletClient,
		Organization: []string{"system:masters"},
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// startNode starts the node and returns when Pods can run on it and find each other.
func (c *controlPlane) startNode(ctx context.Context, admin kubernetes.Interface) error {
	begin := time.Now().Truncate(time.Second) // as precise as times in the API are
	n := node.Of(c.dir)
	c.run(ctx, nodePart, func(ctx context.Context) error { return n.Run(ctx, nodeInitCommand, "--dir", c.dir.Path()) })

	if err := c.loadNodeImages(ctx, n); err != nil {
		return err
	}
	if err := dns.Install(ctx, admin, dns.Settings{Node: node.Name, ServiceIP: node.DNSServiceIP}); err != nil {
		return err
	}
	err := waitUntil(ctx, "node "+node.Name+" is ready", func(ctx context.Context) error {
		found, err := admin.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err == nil && !node.IsReady(found, begin) {
			err = errors.New("it is not")
		}
		return err
	})
	if err != nil {
		return err
	}
	err = waitUntil(ctx, "cluster DNS is ready", func(ctx context.Context) error { return dns.Ready(ctx, admin, begin) })
	if err != nil {
		return err
	}
	return waitUntil(ctx, "kube-proxy is ready", func(ctx context.Context) error { return get(ctx, "http://"+node.KubeProxyHealth+"/healthz") })
}

// loadNodeImages waits for containerd and loads the images that every node has.
func (c *controlPlane) loadNodeImages(ctx context.Context, n node.Node) error {
	archives, err := nodeImages()
	if err != nil {
		return err
	}
	runtime, err := images.At(n.File(node.ContainerdSocket))
	if err != nil {
		return err
	}
	defer runtime.Close()
	err = waitUntil(ctx, "containerd answers", func(ctx context.Context) error {
		_, err := runtime.Names(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := runtime.Load(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

// get returns an error unless the server in the network of the node answers with 200.
func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
