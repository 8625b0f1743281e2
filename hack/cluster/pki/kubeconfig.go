package pki

import (
	"crypto/x509"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"

	"millwright.dev/hack/cluster/statedir"
)

// User is who a kubeconfig stands for.
type User struct {
	Name   string
	Groups []string
}

// clusterName is the name of the cluster and of the context in a kubeconfig.
const clusterName = "millwright"

// WriteKubeconfig writes a kubeconfig with a new client certificate of the user for the API server at that URL. It refers to
// no other file, so it may be copied elsewhere.
func (p *PKI) WriteKubeconfig(path, server string, user User) error {
	content, err := p.kubeconfig(server, user)
	if err == nil {
		err = statedir.WriteFile(path, content)
	}
	if err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", user.Name, err)
	}
	return nil
}

func (p *PKI) kubeconfig(server string, user User) ([]byte, error) {
	certificate, key, err := p.cluster.sign(certutil.Config{
		CommonName:   user.Name,
		Organization: user.Groups,
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, p.now)
	if err != nil {
		return nil, err
	}
	certificatePEM, keyPEM, err := encode(certificate, key)
	if err != nil {
		return nil, err
	}
	authorityPEM, err := certutil.EncodeCertificates(p.cluster.certificate)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authorityPEM}
	config.AuthInfos[user.Name] = &clientcmdapi.AuthInfo{ClientCertificateData: certificatePEM, ClientKeyData: keyPEM}
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: user.Name}
	config.CurrentContext = clusterName
	return clientcmd.Write(*config)
}
