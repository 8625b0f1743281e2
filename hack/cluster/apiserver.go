package main

import (
	"context"
	"fmt"
	"net"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"millwright.dev/hack/cluster/node"
	"millwright.dev/hack/cluster/pki"
	"millwright.dev/hack/cluster/ports"
)

func apiServerFlags(certificates *pki.PKI, etcdSocket string, port int, withNode bool) []string {
	flags := []string{
		"--etcd-servers=unix://" + etcdSocket,
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + certificates.Certificate("apiserver"),
		"--tls-private-key-file=" + certificates.Key("apiserver"),
		"--service-cluster-ip-range=" + node.ServiceRange,
		"--client-ca-file=" + certificates.Certificate("ca"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + certificates.ServiceAccountKey(),
		"--service-account-signing-key-file=" + certificates.ServiceAccountKey(),
		"--authorization-mode=Node,RBAC",
		// The second plugin requires the right to update finalizers, as many real clusters do.
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--allow-privileged=true",
		// The default is to look up a node's name first.
		"--kubelet-preferred-address-types=InternalIP",

		// The aggregation layer. Routing to endpoints instead of ClusterIPs (--enable-aggregator-routing) stays off: an APIService
		// may then refer to a Service of type ExternalName, and so to a server outside of the cluster.
		"--requestheader-client-ca-file=" + certificates.Certificate("front-proxy-ca"),
		"--requestheader-allowed-names=" + pki.FrontProxyClient,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + certificates.Certificate(pki.FrontProxyClient),
		"--proxy-client-key-file=" + certificates.Key(pki.FrontProxyClient),

		"--kubelet-certificate-authority=" + certificates.Certificate("ca"),
		"--kubelet-client-certificate=" + certificates.Certificate(pki.KubeletClient),
		"--kubelet-client-key=" + certificates.Key(pki.KubeletClient),

		// At the stop, end watches immediately instead of waiting a minute for their clients to end them.
		"--shutdown-watch-termination-grace-period=1s",
	}
	if withNode {
		return append(flags, "--advertise-address="+node.Address)
	}
	return append(flags,
		"--bind-address="+ports.Loopback,
		// Without a node no client can reach the Service "kubernetes", and an endpoint must not be a loopback address.
		"--endpoint-reconciler-type=none",
		"--advertise-address="+ports.Loopback,
	)
}

// kubeletClient is the name of the certificate with which the API server authenticates to kubelet.
const kubeletClient = pki.KubeletClient

// auditPolicy logs the user, the request and the answer of each request, without contents.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// auditFlags make the API server log all requests to one file. Tests look for requests in it, so no request may be dropped or late
// (blocking), and the file is not rotated.
func auditFlags(log, policy string) []string {
	return []string{
		"--audit-log-path=" + log,
		"--audit-policy-file=" + policy,
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=0",
	}
}

// runAPIServer runs kube-apiserver on the listener until the context ends.
func runAPIServer(ctx context.Context, listener net.Listener, flags []string) error {
	o := options.NewServerRunOptions()
	if err := parseFlags("kube-apiserver", o.Flags(), flags); err != nil {
		return err
	}
	o.SecureServing.Listener = listener
	// The feature gates and the emulated version of all components of this process: this is done once.
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return err
	}
	if err := utilerrors.NewAggregate(completed.Validate()); err != nil {
		return err
	}
	return app.Run(ctx, completed)
}
