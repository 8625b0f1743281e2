// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// etcd is restored from a backup while an operator runs. Its caches have objects that do not exist any more, in versions that the API server
// has not reached yet. The operator ends, and works again after a restart.
func TestFaultsEtcdRestored(t *testing.T) {
	t.Parallel()
	// An API server that starts forbids requests for a moment that it allows later, so the requests of this cluster are not judged.
	cluster := testcluster.Start(t, testcluster.WithCRDs("manifests/00-crds"), rightsManifests)
	e := newEnv(t, cluster)
	o := startOperator(e, "operator", &faultproxy.Journal{}, electionFlags(patientElection)...)
	o.awaitWarm()
	e.create(immortal("kept"))
	_, before := e.awaitReady("kept", 1)
	cluster.Stop(t)
	restore := cluster.Backup(t)
	cluster.Continue(t)
	e.create(immortal("lost"))
	e.awaitReady("lost", 1)
	e.patch("kept", `{"spec":{"image":"`+newImage+`"}}`)
	e.awaitReady("kept", 2)
	o.mustRun()

	cluster.Stop(t)
	restore()
	cluster.Continue(t)
	if code := o.awaitEnd(t); code == 0 {
		t.Error("got exit code 0, want an error")
	}
	if log := o.log.String(); !strings.Contains(log, "etcd is restored from a backup") {
		t.Errorf("the log does not have the reason:\n%s", log)
	}
	// The Lease comes from the backup, and would not expire for minutes.
	if err := e.kube.CoordinationV1().Leases(e.namespace).Delete(t.Context(), string(core), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.restart()
	o.awaitWarm()
	e.create(immortal("new"))
	e.awaitReady("new", 1)
	if _, pod := e.awaitReady("kept", 1); pod.UID != before.UID {
		t.Error("the Pod of the restored ImmortalContainer was replaced, want the one of the backup")
	}
	if _, err := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace).Get(t.Context(), "lost", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of an object created after the backup: got %v, want not found", err)
	}
	o.mustRun()
}
