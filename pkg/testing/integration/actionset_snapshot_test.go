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

// stealSnapshot replaces the Secret by one whose phases create ConfigMaps with names that begin with "stolen-". It reports whether it
// succeeded.
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

// wantNothingStolen checks that no phase of a replaced snapshot has run.
func (e *actionsEnv) wantNothingStolen() {
	e.Helper()
	list, err := e.kube.CoreV1().ConfigMaps(e.namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "stolen-") {
			e.Errorf("ConfigMap %s exists: a forged snapshot was executed", list.Items[i].Name)
		}
	}
}

// waitForPhase returns a phase that waits until the ConfigMap is ready; see release.
func waitForPhase(phase, configMap string) string {
	return fmt.Sprintf("{func: WaitV2, name: %s, args: {timeout: 10m, conditions: {allOf: [{condition: '{{ eq .data.ready \"yes\" }}', "+
		"objectReference: {apiVersion: v1, resource: configmaps, name: %s, namespace: $NS}}]}}}", phase, configMap)
}

func TestActionSetSnapshotReplaced(t *testing.T) {
	e := newActionsEnv(t)
	e.createConfigMap("kept", map[string]string{"ready": "no"})
	first := e.run(nil)
	e.startRun("replaced", "  phases: ["+waitForPhase("wait", "kept")+", "+createPhase("second")+"]\n  deferPhase: "+createPhase("cleanup")+"\n")
	set := e.awaitPhase("replaced", "wait", v1alpha1.StateRunning)
	secret, err := e.kube.CoreV1().Secrets(e.namespace).Get(t.Context(), "actionset-run-"+string(set.UID), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if snapshot := set.Status.Snapshot; snapshot == nil || snapshot.UID != secret.UID || !strings.HasPrefix(snapshot.Digest, "sha256:") {
		t.Errorf("status.snapshot: got %+v, want the UID %s and a digest", snapshot, secret.UID)
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
		t.Errorf("got %s with the condition %+v, want the run lost", summary(set), failed)
	}
	e.wantNothingStolen()
}

// An attacker who may edit Secrets replaces each snapshot as soon as it exists, while the operator is killed and restarted.
func TestActionSetSnapshotRace(t *testing.T) {
	e := newActionsEnv(t)
	e.createConfigMap("kept", map[string]string{"ready": "no"})
	e.blueprint("raced", goPhases(createConfigMapPhase("one", "{{ .Options.me }}-one"), waitForPhase("wait", "kept"), createConfigMapPhase("two", "{{ .Options.me }}-two")))
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
			return fmt.Sprintf("got %d Secrets replaced, want %d", got, count)
		}
		return ""
	})
	process.kill()
	e.release("kept")
	e.run(nil)
	refused := 0
	for n := range count {
		// A Secret that was replaced before the run started was created again: the run is that of the Blueprint.
		set := e.awaitEnd(fmt.Sprint("raced-", n))
		switch {
		case strings.Contains(set.Status.Error.Message, "Secret actionset-run-"):
			refused++
		case set.Status.State != v1alpha1.StateComplete:
			t.Errorf("got %s, want it complete", summary(set))
		}
	}
	if refused == 0 {
		t.Error("no Secret was replaced after the start of its run: nothing is tested")
	}
	stop()
	attacker.Wait()
	e.wantNothingStolen()
}

// A Secret with the name of the snapshot that exists before the operator creates it is not executed.
func TestActionSetSnapshotPlanted(t *testing.T) {
	e := newActionsEnv(t)
	e.blueprint("forged", goPhases(createPhase("one")))
	set := e.actionSet("forged")
	content := e.text("forged", `{"actions":[{"spec":{"name":"go","blueprint":"forged"},"blueprint":{"phases":[{"func":"KubeOps","name":"one",`+
		`"args":{"operation":"create","namespace":"$NS","spec":"{apiVersion: v1, kind: ConfigMap, metadata: {name: stolen-one}}"}}]},`+
		`"time":"2026-11-20T12:00:00Z","subject":{}}]}`)
	owner := metav1.NewControllerRef(set, schema.GroupVersion(v1alpha1.GroupVersion).WithKind("ActionSet"))
	_, err := e.kube.CoreV1().Secrets(e.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "actionset-run-" + string(set.UID), OwnerReferences: []metav1.OwnerReference{*owner}},
		Immutable:  ptr.To(true), Type: "millwright.dev/actionset-run", Data: map[string][]byte{"run.json": []byte(content)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.run(nil)
	live := e.wantEnd("forged", "complete one=complete; 100%")
	e.wantNothingStolen()
	e.wantCleanUp(live)
}

// An ActionSet is deleted in the foreground, as Argo CD does, or without its dependents, while no operator runs. The next operator runs the deferPhase.
func TestActionSetDeletionPropagation(t *testing.T) {
	e := newActionsEnv(t)
	e.createConfigMap("kept", map[string]string{"ready": "no"})
	first := e.run(nil)
	policies := map[string]metav1.DeletionPropagation{"foreground": metav1.DeletePropagationForeground, "orphan": metav1.DeletePropagationOrphan}
	for name := range policies {
		e.startRun(name, "  phases: ["+waitForPhase("wait", "kept")+"]\n  deferPhase: "+createConfigMapPhase("cleanup", "after-"+name)+"\n")
		e.awaitPhase(name, "wait", v1alpha1.StateRunning)
	}
	first.kill()
	for name, policy := range policies {
		if err := e.client.CrV1alpha1().ActionSets(e.namespace).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
		// The garbage collector removes its finalizer when it is done with the dependents.
		e.awaitSet(name, func(set *v1alpha1.ActionSet) bool { return len(set.Finalizers) == 1 })
	}
	e.run(nil)
	for name := range policies {
		e.awaitGone(name)
		if e.configMap("after-"+name) == nil {
			t.Errorf("%s: the deferPhase has not run", name)
		}
	}
	left, err := e.kube.CoreV1().Secrets(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "type=millwright.dev/actionset-run"})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d Secrets with snapshots are left, %v", len(left.Items), err)
	}
}
