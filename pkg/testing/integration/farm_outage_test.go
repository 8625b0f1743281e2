// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/manager"
)

// killed: when a server is killed, its watches continue at the other one.
func (e *farmFault) killed() {
	follows := e.follow(e.client)
	follows.sees("before-the-kill")
	killed := e.farm.replicas[0]
	if e.farm.front.servedBy(killed.address) == 0 {
		killed = e.farm.replicas[1]
	}
	if err := killed.Process.Kill(); err != nil {
		e.Fatal(err)
	}
	<-killed.ended
	e.farm.remove(killed)
	e.eventually(func() string {
		if _, err := e.llamas.Get(e.Context(), "before-the-kill", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	follows.sees("after-the-kill")
	if len(follows.deleted) > 0 {
		e.Errorf("informers: got deletions of %v, want none", follows.deleted)
	}
	e.farm.add(e.T).awaitReady(e.T, e.cluster)
}

// shown returns the serial number of the certificate that a server presents.
func shown(t testing.TB, server *farmServer) string {
	t.Helper()
	connection, err := tls.Dial("tcp", server.address, &tls.Config{InsecureSkipVerify: true, ServerName: servedAs})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// newCertificate: the controller replaces the certificate while watches continue. The same authority signs it if the Secret has lost it. A
// new authority signs it, in a new Secret, if the Secret was deleted. Deleting the Secret is how certificates are revoked.
func (e *farmFault) newCertificate() {
	follows := e.follow(e.client)
	follows.sees("before-the-certificate")
	stop := runManagerWith(e.T, func(options *manager.Options) {
		options.Kubeconfig, options.Controllers = operatorAccount(e.T, e.cluster).WriteKubeconfig(e.T), []string{"servingcert"}
	})
	defer stop()
	secrets := e.kube.CoreV1().Secrets(farmNamespace)
	for name, lose := range map[string]func() error{
		"certificate lost": func() error {
			return errorOf(secrets.Patch(e.Context(), servingSecret, types.MergePatchType, []byte(`{"data":{"tls.crt":"","tls.key":""}}`), metav1.PatchOptions{}))
		},
		"Secret deleted": func() error { return secrets.Delete(e.Context(), servingSecret, metav1.DeleteOptions{}) },
	} {
		before := shown(e, e.farm.replicas[0])
		if err := lose(); err != nil {
			e.Fatal(err)
		}
		e.eventually(func() string {
			for _, server := range e.farm.replicas {
				if shown(e, server) == before {
					return name + ": a server still presents the old certificate"
				}
			}
			return ""
		})
	}
	e.farm.awaitAvailable(e)
	follows.sees("after-the-certificate")
	if complaints := follows.complaints(); len(complaints) > 0 {
		e.Errorf("informers: got errors or deletions %v, want none", complaints)
	}
	// New connections trust the new authority.
	e.farm.front.cut()
	e.eventually(func() string {
		if _, err := e.llamas.Get(e.Context(), "after-the-certificate", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// namespaceMeanwhile: a namespace that is deleted while no server runs is gone soon after one is back.
func (e *farmFault) namespaceMeanwhile() {
	other := newFarmEnv(e.T, e.farm)
	for i := range 5 {
		other.createLlama(newLlama(fmt.Sprintf("llama-%d", i)))
	}
	for len(e.farm.replicas) > 0 {
		server := e.farm.replicas[0]
		e.farm.remove(server)
		if err := server.terminate(); err != nil {
			e.Error(err)
		}
	}
	e.farm.poke(e)
	e.cluster.Kubectl(e, "wait", "--for=condition=Available=False", "--timeout=1m", "apiservice", "v1alpha.farm.example.com")
	namespaces := e.kube.CoreV1().Namespaces()
	if err := namespaces.Delete(e.Context(), other.namespace, metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
	e.eventually(func() string {
		namespace, err := namespaces.Get(e.Context(), other.namespace, metav1.GetOptions{})
		if err != nil {
			e.Fatalf("the namespace was deleted before its Llamas: %v", err)
		}
		for _, condition := range namespace.Status.Conditions {
			failed := condition.Type == corev1.NamespaceDeletionDiscoveryFailure && condition.Status == corev1.ConditionTrue
			if failed && strings.Contains(condition.Message, "farm.example.com") {
				return ""
			}
		}
		return fmt.Sprintf("conditions of the namespace: got %+v, want the failed discovery of farm.example.com", namespace.Status.Conditions)
	})
	for range 2 {
		e.farm.add(e.T).awaitReady(e.T, e.cluster)
	}
	e.farm.poke(e)
	e.farm.awaitAvailable(e)
	nudge := []byte(`{"metadata":{"labels":{"nudged":"true"}}}`) // else the namespace controller tries again only after a while
	if _, err := namespaces.Patch(e.Context(), other.namespace, types.MergePatchType, nudge, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		e.Fatal(err)
	}
	e.eventually(func() string {
		if _, err := namespaces.Get(e.Context(), other.namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the namespace still exists: %v", err)
		}
		return ""
	})
}
