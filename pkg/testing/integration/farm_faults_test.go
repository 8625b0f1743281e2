// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	typedfarm "millwright.dev/pkg/generated/clientset/versioned/typed/farm/v1alpha"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/testcluster"
)

const recordsCRD = "storage.farm.example.com_llamarecords.yaml"

// The faults affect the whole cluster, so the test has a cluster of its own, and the faults come one after the other.
func TestFarmFaults(t *testing.T) {
	t.Parallel()
	// An API server that starts forbids requests for a moment that it allows later, so the requests of this cluster are not judged.
	cluster := testcluster.Start(t, rightsManifests)
	f := installFarm(t, cluster)
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	e := newFarmEnv(t, f)
	for _, fault := range []struct {
		name string
		run  func(*farmFault)
	}{
		{"records CRD missing", (*farmFault).missingCRD},
		{"two servers", (*farmFault).twoServers},
		{"server killed", (*farmFault).killed},
		{"new certificate", (*farmFault).newCertificate},
		{"namespace deleted in an outage", (*farmFault).namespaceMeanwhile},
		{"etcd compacted", (*farmFault).compacted},
	} {
		t.Run(fault.name, func(t *testing.T) {
			of := &env{T: t, cluster: cluster, namespace: e.namespace, client: e.client, kube: e.kube}
			fault.run(&farmFault{farmEnv: &farmEnv{env: of, farm: f, llamas: e.llamas, pods: e.pods}})
		})
		if t.Failed() {
			return // the next fault needs a farm that works
		}
	}
}

// farmFault is the environment of one fault.
type farmFault struct{ *farmEnv }

// missingCRD: without the CRD of the records the farm serves FarmPods. It serves Llamas as soon as the CRD is installed.
func (e *farmFault) missingCRD() {
	stop := runManagerWith(e.T, func(options *manager.Options) {
		options.Kubeconfig, options.Controllers = operatorAccount(e.T, e.cluster).WriteKubeconfig(e.T), []string{"servingcert"}
	})
	server := e.farm.add(e.T)
	e.farm.front.ignoresReadiness(true)
	e.farm.awaitAvailable(e)
	stop()
	e.createPod("web", 1)
	e.eventually(func() string {
		if list, err := e.pods.List(e.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
			return fmt.Sprintf("list of FarmPods: got %v, %v, want one", list, err)
		}
		return ""
	})
	_, err := e.llamas.List(e.Context(), metav1.ListOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "llamarecords") || !strings.Contains(err.Error(), "manifests/00-crds") {
		e.Errorf("list of Llamas: got %v, want an error that names the CRD", err)
	}
	if got := e.kubectlFails("create", "-f", e.file(dolly)); !strings.Contains(got, "(ServiceUnavailable)") || !strings.Contains(got, "manifests/00-crds") {
		e.Errorf("kubectl create: got %s, want an error that names the CRD", got)
	}
	if _, err := server.get(e.Context(), e.cluster.Config(), "/readyz"); err == nil {
		e.Error("/readyz: got ready, want not ready")
	}
	if _, err := server.get(e.Context(), e.cluster.Config(), "/livez"); err != nil {
		e.Errorf("/livez: %v", err)
	}
	e.cluster.InstallCRDs(e, filepath.Join("manifests/00-crds", recordsCRD))
	e.eventually(func() string {
		if _, err := e.llamas.List(e.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		if _, err := server.get(e.Context(), e.cluster.Config(), "/readyz"); err != nil {
			return err.Error()
		}
		return ""
	})
	e.farm.front.ignoresReadiness(false)
	e.farm.add(e.T).awaitReady(e.T, e.cluster)
}

// twoServers: both servers return the same objects in the same versions.
func (e *farmFault) twoServers() {
	first, second := e.farm.replicas[0].client(e, e.cluster).FarmV1alpha(), e.farm.replicas[1].client(e, e.cluster).FarmV1alpha()
	watcher, err := second.Llamas(e.namespace).Watch(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	defer watcher.Stop()
	for i := range 20 {
		llama, err := first.Llamas(e.namespace).Create(e.Context(), newLlama(fmt.Sprintf("llama-%d", i)), metav1.CreateOptions{})
		if err != nil {
			e.Fatal(err)
		}
		read, err := second.Llamas(e.namespace).Get(e.Context(), llama.Name, metav1.GetOptions{})
		if err != nil {
			e.Fatalf("reading the Llama from the second server: %v", err)
		}
		watched, ok := next(e, watcher).Object.(*farmv1alpha.Llama)
		if !ok || read.ResourceVersion != llama.ResourceVersion || read.UID != llama.UID || watched.ResourceVersion != llama.ResourceVersion {
			e.Errorf("second server: got %+v from a read and %+v from a watch, want %+v", read.ObjectMeta, watched, llama.ObjectMeta)
		}
		llama.Spec.Weight = 40
		if _, err := first.Llamas(e.namespace).Update(e.Context(), llama, metav1.UpdateOptions{}); err != nil {
			e.Fatal(err)
		}
		next(e, watcher)
		read.Spec.Weight = 50
		if _, err := second.Llamas(e.namespace).Update(e.Context(), read, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			e.Errorf("update of an old version at the second server: got %v, want a conflict", err)
		}
	}
	lists := map[string]string{}
	for name, client := range map[string]typedfarm.LlamaInterface{"first": first.Llamas(e.namespace), "second": second.Llamas(e.namespace)} {
		list, err := client.List(e.Context(), metav1.ListOptions{})
		if err != nil {
			e.Fatal(err)
		}
		lists[name] = fmt.Sprintf("%+v", list.Items)
	}
	if lists["first"] != lists["second"] {
		e.Errorf("list of the second server: got %s, want %s", lists["second"], lists["first"])
	}
}
