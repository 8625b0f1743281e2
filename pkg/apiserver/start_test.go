// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/testing/testca"
)

func TestMissingRightsAreReported(t *testing.T) {
	s, config := prepare(t, "--serving-secret=default/farm-operator-serving", "--llama-storage=records")
	for _, right := range []string{"list configmaps", "create tokenreviews", "watch llamarecords", "create llamarecords", "list secrets"} {
		s.refused[right] = true
	}
	to, err := newClients(config.client)
	if err != nil {
		t.Fatal(err)
	}
	missing, err := missingRights(t.Context(), to.kube, neededRights(config.Options))
	if err != nil {
		t.Fatal(err)
	}
	const want = `system:serviceaccount:default:farm-operator lacks rights without which this server cannot serve. manifests/farm/20-account.yaml and manifests/farm/21-role.yaml grant all of them to the ServiceAccount millwright-system/farm-operator: kubectl apply -f manifests/farm/20-account.yaml -f manifests/farm/21-role.yaml; and manifests/farm-tutorial/21-bindings.yaml, applied after these, to default/farm-operator of the tutorial. Missing are:
  RoleBinding in namespace kube-system to Role extension-apiserver-authentication-reader, for:
    list configmaps extension-apiserver-authentication in namespace kube-system
  ClusterRoleBinding to ClusterRole system:auth-delegator, for:
    create tokenreviews.authentication.k8s.io
  ClusterRoleBinding to ClusterRole farm-operator-server, for:
    create, watch llamarecords.storage.farm.example.com
  RoleBinding in namespace default to Role farm-operator-serving, for:
    list secrets farm-operator-serving in namespace default`
	if got := lacking(whoAmI(t.Context(), to.kube), missing).Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The last attempt has no time to ask again who lacks the rights.
func TestTheUserWithoutRightsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, asked := fake.NewClientset(), 0
		client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			review := &authenticationv1.SelfSubjectReview{}
			review.Status.UserInfo.Username = "tutorial"
			return true, review, nil
		})
		client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authorizationv1.SelfSubjectAccessReview{}, nil
		})
		needed := []grant{{by: "a binding", rights: []right{{verbs: readVerbs, resource: "pods"}}}}
		if err := awaitRights(t.Context(), client, needed); err == nil || !strings.HasPrefix(err.Error(), "tutorial lacks rights") {
			t.Errorf("got %v, want the user who lacks rights", err)
		}
		if asked != 1 {
			t.Errorf("kube-apiserver is asked %d times who the user is, want once", asked)
		}
	})
}

func TestRightsThatComeLaterAreFound(t *testing.T) {
	s, config := prepare(t)
	s.refused["list pods"] = true
	granted := time.AfterFunc(100*time.Millisecond, func() {
		s.kube.mu.Lock()
		defer s.kube.mu.Unlock()
		delete(s.refused, "list pods")
	})
	s.opening = func() {
		if granted.Stop() {
			t.Error("the port is opened before the rights are there")
		}
	}
	s.run(t, config)
	s.as(t, "farmer").expect(t, 200, "GET", llamas, "")
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	_, config := prepare(t, "--secure-port="+port)
	want := "another process serves on 127.0.0.1:" + port + ": choose another port by --secure-port (0 takes a free one)"
	if err := Run(t.Context(), config); err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}

func TestClusterWithoutAggregation(t *testing.T) {
	s, config := prepare(t)
	delete(s.objects[configMapPath].(*corev1.ConfigMap).Data, requestHeaderAuthority)
	if err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), "the aggregation layer of this kube-apiserver is off") {
		t.Errorf("error %v", err)
	}
}

func TestNoServingBeforeTheFrontProxyIsKnown(t *testing.T) {
	s, config := prepare(t)
	s.held = configMapPath
	s.run(t, config)
	// The request is sent while the authorities are not known yet; they are let through a little later.
	time.AfterFunc(300*time.Millisecond, func() { close(s.released) })
	s.as(t, "farmer").expect(t, 200, "GET", llamas, "")
}

func secretOf(t *testing.T, name string) *corev1.Secret {
	pair := testca.New(t, "ca").Issue(t, name)
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "farm-operator-serving", ResourceVersion: "2"},
		Data:       map[string][]byte{corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key},
	}
}

// shownBy returns the name of the certificate that a new connection is shown.
func shownBy(t *testing.T, address string) string {
	t.Helper()
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	return connection.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func awaitShown(t *testing.T, address, want string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); shownBy(t, address) != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is shown, not %s", shownBy(t, address), want)
		}
	}
}

func TestCertificateFromSecret(t *testing.T) {
	s, config := prepare(t, "--serving-secret=default/farm-operator-serving")
	go func() {
		for !s.isWatched(secretPath) {
			time.Sleep(10 * time.Millisecond)
		}
		s.set(secretPath, secretOf(t, "one"))
	}()
	s.run(t, config)
	awaitShown(t, s.address, "one")
	s.set(secretPath, secretOf(t, "two"))
	awaitShown(t, s.address, "two")
	useless := secretOf(t, "three")
	useless.Data[corev1.TLSPrivateKeyKey] = nil
	s.set(secretPath, useless)
	s.set(secretPath, nil)
	s.as(t, "farmer").expect(t, 200, "GET", llamas, "")
	if got := shownBy(t, s.address); got != "two" {
		t.Errorf("without a Secret, %s is shown", got)
	}
	s.set(secretPath, secretOf(t, "four"))
	awaitShown(t, s.address, "four")
}

func TestTheCertificateOfFilesIsAwaited(t *testing.T) {
	directory := t.TempDir()
	s, config := prepare(t, "--tls-cert-file="+directory+"/tls.crt", "--tls-private-key-file="+directory+"/tls.key")
	secret := secretOf(t, "of-files")
	for file, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(directory, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.run(t, config)
	awaitShown(t, s.address, "of-files")
}

func TestWaitForACertificateCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), 2*time.Minute)
		defer cancel()
		if err := make(arrival).await(ctx, "Waiting for it"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if logged := len(logger.GetSink().(ktesting.Underlier).GetBuffer().Data()); logged != 4 {
			t.Errorf("logged %d times in two minutes, not after 1, 31, 61 and 91 seconds", logged)
		}
	})
}
