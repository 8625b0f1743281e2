package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"millwright.dev/hack/cluster/node"
	"millwright.dev/hack/cluster/pki"
	"millwright.dev/hack/cluster/ports"
	"millwright.dev/hack/cluster/simnode"
	"millwright.dev/hack/cluster/statedir"
	"millwright.dev/hack/cluster/supervise"
)

// controlPlane is what the components of one cluster are made from.
type controlPlane struct {
	dir            statedir.Dir
	listener       *net.TCPListener
	url            string
	simulatedNodes int
	withNode       bool
	unsafeNoFsync  bool
	auditLog       string // an absolute path, or empty
	etcdLogger     *zap.Logger
	parts          *supervise.Group
}

// Who the components are. The API server has roles for the controller manager and the scheduler by these names.
var (
	adminUser             = pki.User{Name: "admin", Groups: []string{"system:masters"}}
	controllerManagerUser = pki.User{Name: "system:kube-controller-manager"}
	schedulerUser         = pki.User{Name: "system:kube-scheduler"}
	simulatedNodesUser    = pki.User{Name: "simulated-nodes", Groups: []string{"system:masters"}}
)

// start starts the components, each when what it needs is there, and returns when the cluster is ready for use. The context
// ends when a component does, or when there is no more reason to start.
func (c *controlPlane) start(ctx context.Context) error {
	certificates, err := c.loadPKI()
	if err != nil {
		return err
	}
	if err := certificates.WriteKubeconfig(c.dir.AdminKubeconfig(), c.url, adminUser); err != nil {
		return err
	}
	admin, err := client(c.dir.AdminKubeconfig())
	if err != nil {
		return err
	}

	serving, err := c.simulatedNodesServing(certificates)
	if err != nil {
		return err
	}

	apiListener := net.Listener(c.listener)
	if c.withNode {
		if apiListener, err = c.prepareNode(ctx, certificates); err != nil {
			return err
		}
	}
	if err := c.startEtcd(ctx); err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	flags := apiServerFlags(certificates, c.dir.EtcdSocket(), ports.Of(c.listener), c.withNode)
	if c.auditLog != "" {
		if err := statedir.WriteFile(c.dir.AuditPolicy(), []byte(auditPolicy)); err != nil {
			return fmt.Errorf("writing the audit policy: %w", err)
		}
		flags = append(flags, auditFlags(c.auditLog, c.dir.AuditPolicy())...)
	}
	c.run(ctx, "kube-apiserver", func(ctx context.Context) error { return runAPIServer(ctx, apiListener, flags) })
	// Not earlier: without their roles the others are forbidden to do anything, and give up.
	if err := waitForAPIServer(ctx, admin); err != nil {
		return err
	}

	for _, component := range []struct {
		name string
		user pki.User
		run  func(ctx context.Context, kubeconfig string) error
	}{
		{"kube-controller-manager", controllerManagerUser, func(ctx context.Context, kubeconfig string) error {
			return runControllerManager(ctx, controllerManagerFlags(certificates, kubeconfig, c.withNode))
		}},
		{"kube-scheduler", schedulerUser, func(ctx context.Context, kubeconfig string) error {
			return runScheduler(ctx, clientFlags(kubeconfig))
		}},
		{"simulated-nodes", simulatedNodesUser, func(ctx context.Context, kubeconfig string) error {
			client, err := client(kubeconfig)
			if err != nil {
				return err
			}
			return simnode.Run(ctx, simnode.Config{
				Client:         client,
				Nodes:          c.simulatedNodes,
				Version:        componentversion.Get().GitVersion,
				BesideRealNode: c.withNode,
				Serving:        serving,
			})
		}},
	} {
		kubeconfig := filepath.Join(c.dir.PKI(), component.name+".kubeconfig")
		if err := certificates.WriteKubeconfig(kubeconfig, c.url, component.user); err != nil {
			return err
		}
		c.run(ctx, component.name, func(ctx context.Context) error { return component.run(ctx, kubeconfig) })
	}
	switchNode := removeNode
	if c.withNode {
		switchNode = c.startNode
	}
	if err := switchNode(ctx, admin); err != nil {
		return err
	}
	return waitForCluster(ctx, admin, c.simulatedNodes)
}

// simulatedNodesServing makes the certificate of the simulated nodes.
func (c *controlPlane) simulatedNodesServing(certificates *pki.PKI) (simnode.Serving, error) {
	const name = "simulated-nodes"
	err := certificates.Issue(filepath.Join(c.dir.PKI(), name), certutil.Config{
		CommonName: name,
		AltNames:   certutil.AltNames{IPs: []net.IP{net.ParseIP(ports.Loopback)}},
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return simnode.Serving{
		Certificate: certificates.Certificate(name),
		Key:         certificates.Key(name),
		ClientCA:    certificates.Certificate("ca"),
		Client:      pki.KubeletClientName,
	}, err
}

// loadPKI makes the certificates for the addresses by which the API server is reached.
func (c *controlPlane) loadPKI() (*pki.PKI, error) {
	if !c.withNode {
		return pki.Load(c.dir.PKI(), time.Now())
	}
	return pki.Load(c.dir.PKI(), time.Now(), net.ParseIP(node.Address), net.ParseIP(node.APIServiceIP))
}

// run starts a component whose log lines carry its name, as far as they come from contextual logging.
func (c *controlPlane) run(ctx context.Context, name string, run func(context.Context) error) {
	c.parts.Go(klog.NewContext(ctx, klog.LoggerWithName(klog.Background(), name)), name, run)
}

// removeNode removes the Node of a run before that had a real one, and with it the Pods that ran there.
func removeNode(ctx context.Context, admin kubernetes.Interface) error {
	nodes := metav1.ListOptions{LabelSelector: node.TypeLabel + "=" + node.Type}
	if err := admin.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, nodes); err != nil {
		return fmt.Errorf("removing the real node of a run before: %w", err)
	}
	return nil
}

// client returns a client without a rate limit: the API server ensures fairness.
func client(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(config)
}
