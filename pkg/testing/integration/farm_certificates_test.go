// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"millwright.dev/pkg/testing/testca"
	"millwright.dev/pkg/testing/testcluster"
)

// signer is a certificate authority that signs certificates of clients.
type signer struct{ *testca.CA }

// signerOf returns an authority of the cluster: "ca" or "front-proxy-ca".
func signerOf(t *testing.T, cluster *testcluster.Cluster, name string) signer {
	t.Helper()
	file := filepath.Join(filepath.Dir(cluster.Kubeconfig()), "pki", name)
	return signer{testca.Load(t, file+".crt", file+".key")}
}

// newSigner returns an authority that the cluster does not trust.
func newSigner(t *testing.T, name string) signer {
	t.Helper()
	return signer{testca.New(t, name)}
}

// client returns a configuration for a client with a certificate of this name and these groups.
func (s signer) client(t *testing.T, name string, groups ...string) rest.TLSClientConfig {
	t.Helper()
	pair := s.Issue(t, name, groups...)
	return rest.TLSClientConfig{CertData: pair.Cert, KeyData: pair.Key}
}
