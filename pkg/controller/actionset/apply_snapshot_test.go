// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/testing/fakeapi"
)

// secret returns the Secret with the snapshot; nil if there is none.
func (a *apiServer) secret() *corev1.Secret { return a.secrets.Get("ns", "actionset-run-uid-s") }

func (a *apiServer) updateSecret(secret *corev1.Secret) {
	a.secrets.Update("ns", secret.Name, func(stored *corev1.Secret) { *stored = *secret })
}

// attacks are what a user may do who may edit Secrets and wants the phases to make other ConfigMaps, whose names begin with stolen.
var attacks = map[string]func(a *apiServer){
	"replaces": func(a *apiServer) {
		secret := a.secret()
		if secret == nil {
			return
		}
		a.secrets.Remove("ns", secret.Name)
		secret.UID = "replaced"
		secret.Data[snapshotKey] = stolen(secret.Data[snapshotKey])
		a.secrets.Create(secret)
	},
	"changes": func(a *apiServer) {
		secret := a.secret()
		if secret == nil {
			return
		}
		secret.Data[snapshotKey] = stolen(secret.Data[snapshotKey])
		a.updateSecret(secret)
	},
	"creates before": func(a *apiServer) {
		if a.secret() != nil {
			return
		}
		o := answered(observe(newSet("go"), threePhases()))
		r, _ := checkActions(o)
		secret, err := newSnapshotSecret(newSet("go"), r)
		a.must(err)
		secret.UID = "before"
		secret.Data[snapshotKey] = stolen(secret.Data[snapshotKey])
		a.secrets.Create(secret)
	},
}

func stolen(content []byte) []byte {
	return bytes.ReplaceAll(content, []byte("metadata: {name: "), []byte("metadata: {name: stolen-"))
}

// The Secret with the snapshot is replaced, changed, or created before the operator creates it, at each request, and the same or another process
// continues: nothing else than the snapshot is executed.
func TestForgedSnapshotIsNotExecuted(t *testing.T) {
	struck := 0
	for name, attack := range attacks {
		for n := range strings.Count(allRequests, ",") + 6 {
			for _, restarts := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, at request %d, restarts %t", name, n+1, restarts), func(t *testing.T) {
					inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
						done := 0
						a.refuse = func(request string) error {
							if done == n {
								before := a.secret()
								attack(a)
								if after := a.secret(); after != nil && (before == nil || !bytes.Equal(before.Data[snapshotKey], after.Data[snapshotKey])) {
									struck++
								}
							}
							if done++; restarts && done > n {
								return outage(request)
							}
							return nil
						}
						a.startProcess()
						if !restarts {
							a.waitHour()
						} else {
							a.waitInOutage()
							a.stopProcess()
							a.answerAll()
							a.startProcess()
							a.waitHour()
						}
						for _, made := range fakeapi.Of[corev1.ConfigMap](a.Server, configMapsResource).List() {
							if strings.Contains(made.String(), "stolen") {
								t.Errorf("what was made: %s", made)
							}
						}
						if status := a.set().Status; !hasFinished(status) || status.State == v1alpha1.StateFailed && !strings.Contains(status.Error.Message, "Secret actionset-run-uid-s") {
							t.Errorf("the states are %s, %q", a.states(), status.Error.Message)
						}
					})
				})
			}
		}
	}
	if struck < 30 {
		t.Errorf("the attacks have struck only %d times", struck)
	}
}

// withEarlierSecret is the ActionSet s, whose Secret an earlier attempt has created; change changes it.
func withEarlierSecret(t *testing.T, change func(*corev1.Secret), test func(t *testing.T, a *apiServer)) {
	t.Helper()
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		// An earlier process was killed just after it had made the Secret.
		a.lose = func(request string) error {
			if request == "create secrets" {
				a.refuse = func(request string) error { return outage(request) }
				return outage(request)
			}
			return nil
		}
		a.startProcess()
		a.stopProcess()
		a.answerAll()
		secret := a.secret()
		if secret == nil || a.states() != "no status" {
			t.Fatalf("the Secret is %v, and the states are %s", secret, a.states())
		}
		change(secret)
		a.updateSecret(secret)
		a.takeRequests()
		time.Sleep(3 * time.Second)
		test(t, a)
	})
}

func TestEqualSnapshotIsAdopted(t *testing.T) {
	withEarlierSecret(t, func(*corev1.Secret) {}, func(t *testing.T, a *apiServer) {
		before := a.secret()
		var launched *v1alpha1.RunSnapshot
		a.lose = func(request string) error {
			if set := a.set(); set.Status != nil && launched == nil {
				launched = set.Status.Snapshot
				adopted, err := newSnapshotSecret(set, a.controller.memories.Get(cache.NewObjectName("ns", "s"), set.UID).snapshot)
				if a.must(err); snapshotIDOf(adopted).Digest != launched.Digest {
					t.Errorf("the process continues with other content than that of the Secret: %s", adopted.Data[snapshotKey])
				}
			}
			return nil
		}
		a.startProcess()
		a.waitHour()
		if got := a.states(); got != allComplete {
			t.Errorf("the states are %s", got)
		}
		if launched == nil || *launched != *snapshotIDOf(before) {
			t.Errorf("it was launched from %v, want %v", launched, snapshotIDOf(before))
		}
		if requests := strings.Join(a.takeRequests(), ", "); strings.Count(requests, "delete secrets") != 1 {
			t.Errorf("requests: %s", requests)
		}
	})
}

func TestDifferentSnapshotIsReplaced(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"another content": func(s *corev1.Secret) { s.Data[snapshotKey] = stolen(s.Data[snapshotKey]) },
		"no JSON":         func(s *corev1.Secret) { s.Data[snapshotKey] = []byte("{") },
		"another action":  func(s *corev1.Secret) { s.Data[snapshotKey] = []byte(`{"actions":[]}`) },
		"one more field":  func(s *corev1.Secret) { s.Data[snapshotKey] = append([]byte(`{"more":1,`), s.Data[snapshotKey][1:]...) },
		"another time": func(s *corev1.Secret) {
			s.Data[snapshotKey] = bytes.Replace(s.Data[snapshotKey], []byte(`"time":"20`), []byte(`"time":"21`), 1)
		},
		"an injected time": func(s *corev1.Secret) {
			s.Data[snapshotKey] = bytes.Replace(s.Data[snapshotKey], []byte(`"time":"`), []byte(`"time":"; rm -rf `), 1)
		},
	} {
		withEarlierSecret(t, change, func(t *testing.T, a *apiServer) {
			a.startProcess()
			a.waitHour()
			if got := a.states(); got != allComplete {
				t.Errorf("%s: the states are %s", name, got)
			}
			if requests := strings.Join(a.takeRequests(), ", "); strings.Count(requests, "delete secrets") != 2 {
				t.Errorf("%s: requests: %s", name, requests)
			}
		})
	}
}

func TestForeignSnapshotSecret(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"no label": func(s *corev1.Secret) { delete(s.Labels, phase.LabelActionSet) },
		"another owner": func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{UID: "another"}, kind)}
		},
		"another type":    func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"can be changed":  func(s *corev1.Secret) { s.Immutable = nil },
		"can be changed.": func(s *corev1.Secret) { s.Immutable = ptr.To(false) },
	} {
		withEarlierSecret(t, change, func(t *testing.T, a *apiServer) {
			a.startProcess()
			a.waitHour()
			status := a.set().Status
			if !hasFinished(status) || !strings.Contains(status.Error.Message, "Secret actionset-run-uid-s, which is to hold the snapshot of the run, exists and was not made for it") {
				t.Errorf("%s: the states are %s, %+v", name, a.states(), status.Error)
			}
			if a.secret() == nil || a.count(configMapsResource) > 0 {
				t.Errorf("%s: the Secret is %v, and %d phases were executed", name, a.secret(), a.count(configMapsResource))
			}
		})
	}
}

// Another process has started the run from that Secret, and this process has not observed it yet.
func TestStartedSnapshotIsNotReplaced(t *testing.T) {
	withEarlierSecret(t, func(s *corev1.Secret) { s.Data[snapshotKey] = stolen(s.Data[snapshotKey]) }, func(t *testing.T, a *apiServer) {
		a.refuse = func(request string) error {
			if request == "get actionsets" {
				set := a.set()
				status := initialStatus(observe(set), &snapshot{Actions: []snapshotAction{{Blueprint: threePhases().Actions["go"]}}}, snapshotIDOf(a.secret()))
				a.edit(func(set *v1alpha1.ActionSet) { set.Status = &status })
			}
			if request == "delete secrets" && !hasFinished(a.set().Status) {
				t.Error("the Secret is deleted, though the ActionSet has changed")
			}
			return nil
		}
		a.startProcess()
	})
}

func TestSnapshotOfOlderRelease(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
			held := true
			a.refuse = func(request string) error {
				if held && request == "create configmaps" {
					return outage(request)
				}
				return nil
			}
			a.startProcess()
			a.stopProcess()
			a.edit(func(set *v1alpha1.ActionSet) { set.Status.Snapshot = nil })
			a.startProcess()
			if got, want := a.set().Status.Snapshot, snapshotIDOf(a.secret()); got == nil || *got != *want {
				t.Fatalf("the snapshot is %v, want %v", got, want)
			}
			attacks["replaces"](a)
			if restarts {
				a.stopProcess()
				a.startProcess()
			}
			a.mu.Lock()
			held = false
			a.mu.Unlock()
			a.waitHour()
			want := allComplete
			if restarts {
				want = "failed go[ one=failed two=pending three=pending defer bye=pending ] ended"
			}
			if got := a.states(); got != want {
				t.Errorf("restarts %t: the states are %s, want %s", restarts, got, want)
			}
		})
	}
}

// An older CustomResourceDefinition does not keep the snapshot.
func TestDroppedSnapshotHoldsRun(t *testing.T) {
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		a.dropFields(func(status *v1alpha1.ActionSetStatus) { status.Snapshot = nil })
		a.startProcess()
		a.waitHour()
		if made := a.count(configMapsResource); made > 0 {
			t.Errorf("%d phases were executed", made)
		}
		a.Register(setsResource)
		a.waitHour()
		if got := a.states(); got != allComplete {
			t.Errorf("with another CustomResourceDefinition the states are %s", got)
		}
	})
}

func TestSnapshotReplacedRepeatedly(t *testing.T) {
	withEarlierSecret(t, func(s *corev1.Secret) { s.Data[snapshotKey] = stolen(s.Data[snapshotKey]) }, func(t *testing.T, a *apiServer) {
		a.refuse = func(request string) error {
			if request == "create secrets" {
				attacks["creates before"](a)
			}
			return nil
		}
		a.startProcess()
		a.waitHour()
		status := a.set().Status
		if status == nil || status.State != v1alpha1.StatePending || len(status.Conditions) == 0 || !strings.Contains(status.Conditions[0].Message, "already exists") {
			t.Errorf("the states are %s: %+v", a.states(), status)
		}
		if a.count(configMapsResource) > 0 {
			t.Error("something was executed")
		}
	})
}
