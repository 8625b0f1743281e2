// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// stealSnapshot replaces the Secret by one whose phases make ConfigMaps with names that begin with stolen. It returns whether it could.
func (e *actionsEnv) stealSnapshot(ctx context.Context, secret *corev1.Secret) bool {
	content := bytes.ReplaceAll(secret.Data["run.json"], []byte("metadata: {name: "), []byte("metadata: {name: stolen-"))
	forged := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret.Name, Labels: secret.Labels, OwnerReferences: secret.OwnerReferences},
		Immutable:  ptr.To(true), Type: secret.Type, Data: map[string][]byte{"run.json": content},
	}
	secrets := e.kube.CoreV1().Secrets(e.namespace)
	if err := secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}); err != nil {
		return false
	}
	_, err := secrets.Create(ctx, forged, metav1.CreateOptions{})
	return err == nil
}

func (e *actionsEnv) nothingIsStolen() {
	e.Helper()
	list, err := e.kube.CoreV1().ConfigMaps(e.namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "stolen-") {
			e.Errorf("ConfigMap %s was made", list.Items[i].Name)
		}
	}
}

// waitsFor is a phase that waits until the ConfigMap is ready.
func waitsFor(phase, configMap string) string {
	return fmt.Sprintf("{func: WaitV2, name: %s, args: {timeout: 10m, conditions: {allOf: [{condition: '{{ eq .data.ready \"yes\" }}', "+
		"objectReference: {apiVersion: v1, resource: configmaps, name: %s, namespace: $NS}}]}}}", phase, configMap)
}

func TestASnapshotThatIsReplacedIsNotExecuted(t *testing.T) {
	e := newActionsEnv(t)
	e.createConfigMap("kept", map[string]string{"ready": "no"})
	first := e.run(nil)
	e.goes("replaced", "  phases: ["+waitsFor("wait", "kept")+", "+creating("second")+"]\n  deferPhase: "+creating("cleanup")+"\n")
	set := e.awaitPhase("replaced", "wait", v1alpha1.StateRunning)
	secret, err := e.kube.CoreV1().Secrets(e.namespace).Get(t.Context(), "actionset-run-"+string(set.UID), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if snapshot := set.Status.Snapshot; snapshot == nil || snapshot.UID != secret.UID || !strings.HasPrefix(snapshot.Digest, "sha256:") {
		t.Errorf("the snapshot of the Secret %s is %+v", secret.UID, snapshot)
	}
	first.kill()
	if !e.stealSnapshot(t.Context(), secret) {
		t.Fatal("the Secret could not be replaced")
	}
	e.release("kept")
	e.run(nil)
	set = e.awaitEnd("replaced")
	failed := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFailed)
	if failed == nil || failed.Reason != v1alpha1.ReasonRunLost || !strings.Contains(failed.Message, "was replaced") {
		t.Errorf("it has ended as %s, %+v", summary(set), failed)
	}
	e.nothingIsStolen()
}

// Someone who may edit Secrets replaces each one as soon as it is there, and makes each before it is; the operator is killed meanwhile.
func TestWhoRacesForSnapshotsGetsNothingExecuted(t *testing.T) {
	e := newActionsEnv(t)
	e.createConfigMap("kept", map[string]string{"ready": "no"})
	e.blueprint("raced", goPhases(createsConfigMap("one", "{{ .Options.me }}-one"), waitsFor("wait", "kept"), createsConfigMap("two", "{{ .Options.me }}-two")))
	ctx, stop := context.WithCancel(t.Context())
	var attacker sync.WaitGroup
	defer attacker.Wait()
	defer stop()
	seen := map[string]bool{}
	var struck atomic.Int32
	attacker.Go(func() {
		secrets := e.kube.CoreV1().Secrets(e.namespace)
		watcher, err := secrets.Watch(ctx, metav1.ListOptions{FieldSelector: "type=millwright.dev/actionset-run"})
		if err != nil {
			t.Error(err)
			return
		}
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			secret, ok := event.Object.(*corev1.Secret)
			if ok && !bytes.Contains(secret.Data["run.json"], []byte("stolen-")) && !seen[string(secret.UID)] {
				seen[string(secret.UID)] = true
				if e.stealSnapshot(ctx, secret) {
					struck.Add(1)
				}
			}
		}
	})
	const count = 20
	process := e.run(nil)
	for n := range count {
		name := fmt.Sprint("raced-", n)
		e.actionSet(name, "{name: go, blueprint: raced, options: {me: "+name+"}, object: {kind: Namespace, name: $NS, namespace: $NS}}")
		if n%5 == 4 {
			process.kill()
			process = e.run(nil)
		}
	}
	e.eventually(func() string {
		if got := struck.Load(); got < count {
			return fmt.Sprintf("%d Secrets were replaced", got)
		}
		return ""
	})
	process.kill()
	e.release("kept")
	e.run(nil)
	refused := 0
	for n := range count {
		// A Secret that was replaced before the launch was made again, and what runs is what was asked for.
		set := e.awaitEnd(fmt.Sprint("raced-", n))
		switch {
		case strings.Contains(set.Status.Error.Message, "Secret actionset-run-"):
			refused++
		case set.Status.State != v1alpha1.StateComplete:
			t.Errorf("it has ended as %s", summary(set))
		}
	}
	if refused == 0 {
		t.Error("no Secret was replaced after a launch: nothing is tested")
	}
	stop()
	attacker.Wait()
	e.nothingIsStolen()
}

func TestASnapshotThatIsThereBeforeTheOperatorIsNotExecuted(t *testing.T) {
	e := newActionsEnv(t)
	e.blueprint("forged", goPhases(creating("one")))
	set := e.actionSet("forged")
	content := e.text("forged", `{"actions":[{"spec":{"name":"go","blueprint":"forged"},"blueprint":{"phases":[{"func":"KubeOps","name":"one","args":{"operation":"create","namespace":"$NS",`+
		`"spec":"{apiVersion: v1, kind: ConfigMap, metadata: {name: stolen-one}}"}}]},"time":"2026-11-20T12:00:00Z","subject":{}}]}`)
	owner := metav1.NewControllerRef(set, schema.GroupVersion(v1alpha1.GroupVersion).WithKind("ActionSet"))
	_, err := e.kube.CoreV1().Secrets(e.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "actionset-run-" + string(set.UID), OwnerReferences: []metav1.OwnerReference{*owner}},
		Immutable:  ptr.To(true), Type: "millwright.dev/actionset-run", Data: map[string][]byte{"run.json": []byte(content)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.run(nil)
	live := e.ends("forged", "complete one=complete; 100%")
	e.nothingIsStolen()
	e.leavesNothing(live)
}
