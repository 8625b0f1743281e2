// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/controller/servingcert"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

const farmAPIService = "v1alpha.farm.example.com"

// servingEnv is a control plane with the APIService of the farm, but without a server, and the controller that issues its certificate.
type servingEnv struct {
	*env
	journal faultproxy.Journal
}

// startServing runs the controller with the shipped rights, against an API server that does not support watch lists.
func startServing(t *testing.T) *servingEnv {
	t.Helper()
	t.Parallel()
	cluster := testcluster.Start(t, rightsOptions...)
	s := &servingEnv{env: newEnv(t, cluster)}
	proxy, kubeconfig := startProxy(t, "operator", operatorAccount(t, cluster).Config, &s.journal)
	t.Cleanup(refuseWatchLists(proxy))
	cluster.Kubectl(t, "apply", "-f", "../../../manifests/farm/40-apiservice.yaml")
	runManagerWith(t, func(options *manager.Options) {
		options.Kubeconfig, options.Controllers = kubeconfig, []string{servingcert.ControllerName}
	})
	return s
}

// certificate returns the Secret with the certificate, or nil if it does not exist.
func (s *servingEnv) certificate() *corev1.Secret {
	s.Helper()
	secret, err := s.kube.CoreV1().Secrets(farmNamespace).Get(s.Context(), servingSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return secret
}

func (s *servingEnv) read(path string) string {
	s.Helper()
	return s.kubectl("get", "apiservice", farmAPIService, "-o", "jsonpath={"+path+"}")
}

// awaitTrust waits until the certificate in the Secret is valid for the caBundle of the APIService.
func (s *servingEnv) awaitTrust() {
	s.Helper()
	s.eventually(func() string {
		secret := s.certificate()
		if secret == nil {
			return "the Secret does not exist"
		}
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return err.Error()
		}
		bundle, err := base64.StdEncoding.DecodeString(s.read(".spec.caBundle"))
		if err != nil {
			return err.Error()
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: servedAs}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// awaitEvent waits for an event of the reason on the Secret or the APIService.
func (s *servingEnv) awaitEvent(kind, reason string) {
	s.Helper()
	s.eventually(func() string {
		found := s.kubectl("get", "events", "--all-namespaces", "--field-selector", "involvedObject.kind="+kind+",reason="+reason, "-o", "name")
		if found == "" {
			return "no event " + reason + " on the " + kind
		}
		return ""
	})
}

func (s *servingEnv) patchSecret(patch string) {
	s.Helper()
	_, err := s.kube.CoreV1().Secrets(farmNamespace).Patch(s.Context(), servingSecret, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func TestServingCert(t *testing.T) {
	s := startServing(t)
	s.awaitTrust()
	s.awaitEvent("Secret", "CertificateIssued")
	s.awaitEvent("APIService", "CABundleInjected")

	before := s.certificate().Data[corev1.TLSCertKey]
	s.patchSecret(`{"data":{"tls.key":"` + base64.StdEncoding.EncodeToString([]byte("broken")) + `"}}`)
	s.eventually(func() string {
		if string(s.certificate().Data[corev1.TLSCertKey]) == string(before) {
			return "the certificate without a valid key was not replaced"
		}
		return ""
	})
	s.awaitTrust()

	s.kubectl("patch", "apiservice", farmAPIService, "--type=merge", "-p", `{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`)
	s.awaitTrust()
	if insecure := s.read(".spec.insecureSkipTLSVerify"); insecure == "true" {
		t.Error("insecureSkipTLSVerify of the APIService: got true, want it removed")
	}

	s.kubectl("delete", "secret", "-n", farmNamespace, servingSecret)
	s.awaitTrust()
	bundle := s.read(".spec.caBundle")
	s.kubectl("delete", "secret", "-n", farmNamespace, authoritySecret)
	s.eventually(func() string {
		if s.read(".spec.caBundle") == bundle {
			return "the caBundle still has the deleted authority"
		}
		return ""
	})
	s.awaitTrust()

	listed := sets.New[string]()
	for _, entry := range s.journal.Entries() {
		if entry.Verb == "list" && entry.Code == http.StatusOK {
			listed.Insert(entry.Resource)
		}
		url := entry.Path + "?" + entry.Query.Encode()
		if entry.Resource == "secrets" && entry.Verb != "create" && !strings.Contains(url, servingSecret) && !strings.Contains(url, authoritySecret) {
			t.Errorf("got request %s %s, want none for other Secrets", entry.Verb, url)
		}
	}
	if diff := cmp.Diff([]string{"apiservices", "secrets"}, sets.List(listed)); diff != "" {
		t.Errorf("resources that were listed (-want +got):\n%s", diff)
	}
}

func TestServingCertForeignSecret(t *testing.T) {
	s := startServing(t)
	s.awaitTrust()
	s.patchSecret(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"them"}}}`)
	s.awaitEvent("Secret", "ErrResourceExists")
	theirs := s.certificate()
	s.kubectl("patch", "apiservice", farmAPIService, "--type=merge", "-p", `{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`)
	reads := func() int {
		return len(s.journal.Select(func(entry faultproxy.Entry) bool {
			return entry.Verb == "get" && entry.Resource == "secrets" && entry.Code == http.StatusOK
		}))
	}
	for before := reads(); ; {
		s.kubectl("annotate", "apiservice", farmAPIService, "looked=at", "--overwrite")
		s.kubectl("annotate", "apiservice", farmAPIService, "looked-")
		if reads() > before+1 {
			break
		}
	}
	if spec := s.read(".spec"); strings.Contains(spec, "caBundle") {
		t.Errorf("got spec %s, want no caBundle of a foreign Secret", spec)
	}
	if now := s.certificate(); now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the foreign Secret was written: %s", now.ManagedFields)
	}
	s.kubectl("delete", "secret", "-n", farmNamespace, servingSecret)
	s.awaitTrust()
}
