// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/testcluster"
)

const recordsCRD = "storage.farm.example.com_llamarecords.yaml"

// The faults come one after the other: all of them are of the whole cluster, which is therefore of this test alone.
func TestFarmFaults(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Start(t, rightsManifests) // an API server that starts forbids for a moment what it allows later: this is not judged
	f := installFarm(t, cluster)
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	e := newFarmEnv(t, f)
	for _, fault := range []struct {
		name string
		meet func(*farmFault)
	}{
		{"without the CRD of the records FarmPods are served and Llamas are when it comes", (*farmFault).missingCRD},
		{"both servers tell the same of the same versions", (*farmFault).twoServers},
		{"a server that is killed ends watches which go on at the other", (*farmFault).killed},
		{"a new certificate is served while watches go on", (*farmFault).newCertificate},
		{"a namespace that is deleted while no server runs goes when one comes back", (*farmFault).namespaceMeanwhile},
		{"what etcd has forgotten is expired and informers begin anew", (*farmFault).compacted},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.meet(&farmFault{farmEnv: &farmEnv{env: &env{T: t, cluster: cluster, namespace: e.namespace, client: e.client, kube: e.kube}, farm: f, llamas: e.llamas, pods: e.pods}})
		})
		if t.Failed() {
			return // the next one needs a farm that is well
		}
	}
}

// farmFault is one of them.
type farmFault struct{ *farmEnv }

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
			return fmt.Sprintf("FarmPods: %v, %v", list, err)
		}
		return ""
	})
	_, err := e.llamas.List(e.Context(), metav1.ListOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "llamarecords") || !strings.Contains(err.Error(), "manifests/00-crds") {
		e.Errorf("Llamas: %v", err)
	}
	if said := e.kubectlFails("create", "-f", e.file(dolly)); !strings.Contains(said, "(ServiceUnavailable)") || !strings.Contains(said, "manifests/00-crds") {
		e.Errorf("kubectl says: %s", said)
	}
	if _, err := server.get(e.Context(), e.cluster.Config(), "/readyz"); err == nil {
		e.Error("it says that it is ready")
	}
	if _, err := server.get(e.Context(), e.cluster.Config(), "/livez"); err != nil {
		e.Errorf("it says that it is not alive: %v", err)
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
			e.Fatalf("what one has made the other does not find: %v", err)
		}
		told, ok := next(e, watcher).Object.(*farmv1alpha.Llama)
		if !ok || read.ResourceVersion != llama.ResourceVersion || read.UID != llama.UID || told.ResourceVersion != llama.ResourceVersion {
			e.Errorf("one has made %+v, the other reads %+v and tells of %+v", llama.ObjectMeta, read.ObjectMeta, told)
		}
		llama.Spec.Weight = 40
		if _, err := first.Llamas(e.namespace).Update(e.Context(), llama, metav1.UpdateOptions{}); err != nil {
			e.Fatal(err)
		}
		next(e, watcher)
		read.Spec.Weight = 50
		if _, err := second.Llamas(e.namespace).Update(e.Context(), read, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			e.Errorf("one has changed it, and the other changes what it was: %v", err)
		}
	}
	lists := map[string]string{}
	for name, client := range map[string]func(context.Context, metav1.ListOptions) (*farmv1alpha.LlamaList, error){"first": first.Llamas(e.namespace).List, "second": second.Llamas(e.namespace).List} {
		list, err := client(e.Context(), metav1.ListOptions{})
		if err != nil {
			e.Fatal(err)
		}
		lists[name] = fmt.Sprintf("%+v", list.Items)
	}
	if lists["first"] != lists["second"] {
		e.Errorf("one lists %s, the other %s", lists["first"], lists["second"])
	}
}
