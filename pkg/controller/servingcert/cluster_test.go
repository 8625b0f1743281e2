// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/certs"
)

const day = 24 * time.Hour

// The Secrets in the default namespace.
var (
	serving  = types.NamespacedName{Namespace: DefaultFarmNamespace, Name: servingName}
	tutorial = types.NamespacedName{Namespace: "default", Name: servingName}
)

// apiServiceNamed leads to that Service in the default namespace.
func apiServiceNamed(name, service string) *unstructured.Unstructured {
	return apiServiceIn(DefaultFarmNamespace, name, service)
}

func apiServiceIn(namespace, name, service string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": name, "labels": map[string]any{LabelInject: "true"}},
		"spec":     map[string]any{"service": map[string]any{"namespace": namespace, "name": service}},
	}}
}

const farm = "v1alpha.farm.example.com"

func ours() *unstructured.Unstructured { return apiServiceNamed(farm, "farm-operator") }

func unlabelled() *unstructured.Unstructured {
	object := ours()
	object.SetLabels(nil)
	return object
}

// applyAPIService is what a user does.
func (a *apiServer) applyAPIService(object *unstructured.Unstructured) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	object.SetResourceVersion(a.nextVersion())
	if _, err := a.dynamic.Tracker().Get(APIServices, "", object.GetName()); err == nil {
		a.must(a.dynamic.Tracker().Update(APIServices, object, ""))
		return
	}
	a.must(a.dynamic.Tracker().Create(APIServices, object, ""))
}

// applySecret likewise.
func (a *apiServer) applySecret(object *corev1.Secret) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.createSecret(object)
	a.must(err)
}

func (a *apiServer) deleteSecret(name types.NamespacedName) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.must(a.kube.Tracker().Delete(secrets, name.Namespace, name.Name))
	a.must(a.dynamic.Tracker().Delete(secrets, name.Namespace, name.Name))
}

// kept are the Secrets that there are.
func (a *apiServer) kept() certs.Secrets {
	return certs.Secrets{Authority: a.secret(authority), Serving: a.secret(a.serving)}
}

func (a *apiServer) secret(name types.NamespacedName) *corev1.Secret {
	object, err := a.kube.Tracker().Get(secrets, name.Namespace, name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	a.must(err)
	return object.(*corev1.Secret)
}

func (a *apiServer) bundle() []byte {
	text, _, _ := unstructured.NestedString(a.apiService(farm).Object, "spec", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(text)
	a.must(err)
	return bundle
}

// verify as kube-apiserver does what a server shows that has the Secret.
func (a *apiServer) verify(bundle []byte) error {
	data := a.kept().Serving.Data
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now(), DNSName: "farm-operator." + a.serving.Namespace + ".svc"})
	return err
}

// foreign is a Secret that somebody else keeps.
func foreign(name types.NamespacedName) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: []byte("theirs")},
	}
}

// inBubble runs a test with a controller that works in all namespaces.
func inBubble(t *testing.T, test func(t *testing.T, a *apiServer), apiServices ...*unstructured.Unstructured) {
	synctest.Test(t, func(t *testing.T) { test(t, newAPIServer(t, apiServices...)) })
}
