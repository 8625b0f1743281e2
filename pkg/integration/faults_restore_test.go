// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/faultproxy"
	"millwright.dev/pkg/testcluster"
)

// etcd is restored from a backup under an operator. Its caches know objects that are gone, in versions that the API server has yet to reach.
func TestAnOperatorStartsAgainWhenEtcdIsRestoredFromABackup(t *testing.T) {
	t.Parallel()
	// An API server that starts forbids for a moment what it allows later: this is not judged.
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
	if code := o.awaitEnd(t, patience); code == 0 {
		t.Error("it has ended as if it had been asked to")
	}
	if log := o.log.String(); !strings.Contains(log, "etcd is restored from a backup") {
		t.Errorf("the log has no reason:\n%s", log)
	}
	// Its Lease is that of the backup, and would not expire for long.
	if err := e.kube.CoordinationV1().Leases(e.namespace).Delete(t.Context(), string(core), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.restart()
	o.awaitWarm()
	e.create(immortal("new"))
	e.awaitReady("new", 1)
	if _, pod := e.awaitReady("kept", 1); pod.UID != before.UID {
		t.Error("the Pod of the restored ImmortalContainer is another one than in the backup")
	}
	if _, err := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace).Get(t.Context(), "lost", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was created after the backup is there: %v", err)
	}
	o.mustRun()
}
