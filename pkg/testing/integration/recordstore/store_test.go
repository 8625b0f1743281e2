// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/storage/recordstore"
	"millwright.dev/pkg/testing/storetest"
	"millwright.dev/pkg/testing/testcluster"
)

func TestMain(m *testing.M) { testcluster.Main(m, testcluster.WithCRDs("manifests/00-crds")) }

// newStore returns a storage whose watch works. It retries requests while the API server fills its cache: for a moment after the CRD was
// installed, and after a restart.
func newStore(t testing.TB, cluster *testcluster.Cluster) storage.Interface {
	t.Helper()
	store := patient{unusedStore(t, cluster.Config())}
	eventually(t, func() string {
		w, err := store.Watch(t.Context(), "/llamas", storage.ListOptions{Recursive: true})
		if err != nil {
			return err.Error()
		}
		w.Stop()
		return ""
	})
	return store
}

func unusedStore(t testing.TB, config *rest.Config) storage.Interface {
	t.Helper()
	store, err := recordstore.NewLlamas(config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestStorage(t *testing.T) {
	cluster := testcluster.Shared(t)
	storetest.Run(t, storetest.Subject{Interface: newStore(t, cluster), Namespace: cluster.Namespace})
}

func TestStorageAfterCompaction(t *testing.T) {
	cluster := testcluster.Start(t, testcluster.WithCRDs("manifests/00-crds"))
	storetest.RunForgetting(t, storetest.Subject{Interface: newStore(t, cluster), Namespace: cluster.Namespace}, func(t testing.TB) {
		cluster.Compact(t)
		cluster.Restart(t)
	})
}
