// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned/fake"
	"millwright.dev/pkg/generated/informers/externalversions"
)

// failing has the first n requests that begin with the word fail.
func failing(word string, n int, err error) func(string) error {
	return func(request string) error {
		if n == 0 || !strings.HasPrefix(request, word+" ") {
			return nil
		}
		n--
		return err
	}
}

func TestADeletionThatFailsIsAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2))
		a.failIf(failing("delete", 3, apierrors.NewInternalError(errors.New("etcd is away"))))
		a.scale("m", 1)
		time.Sleep(time.Minute)
		a.took()
		if left := a.ownedBy("uid-m"); len(left) != 1 {
			t.Errorf("m still has %v", left)
		}
		if status := a.machine("m").Status; status.Replicas != 1 || status.Positions != "d" {
			t.Errorf("the status has %d switches, %q", status.Replicas, status.Positions)
		}
	})
}

func TestAReleaseThatFailsIsAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2))
		a.failIf(failing("release", 3, apierrors.NewInternalError(errors.New("etcd is away"))))
		a.label("switch-pdxzk", nil)
		time.Sleep(time.Minute)
		a.took()
		for _, name := range a.ownedBy("uid-m") {
			if name == "switch-pdxzk" {
				t.Error("m still controls the Switch that its selector does not match")
			}
		}
	})
}

// TestReservationWithStaleCache goes through all of its answers.
func TestReservationWithStaleCache(t *testing.T) {
	reserved := switchOf("a")
	other := reserved.DeepCopy()
	other.UID = "another"
	flip := &v1alpha1.Flip{Switch: reserved.Name, UID: reserved.UID, ResourceVersion: "of a fake"}
	for name, tc := range map[string]struct {
		answer *v1alpha1.Switch
		err    error
		want   *v1alpha1.Switch
		fails  bool
	}{
		"it is there":            {answer: reserved, want: reserved},
		"another has its name":   {answer: other},
		"it is gone":             {err: apierrors.NewNotFound(v1alpha1.Resource("switches"), reserved.Name)},
		"there is no answer yet": {err: apierrors.NewGenericServerResponse(http.StatusInternalServerError, "get", v1alpha1.Resource("switches"), "a", "", 0, false), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("get", "switches", func(clienttesting.Action) (bool, runtime.Object, error) {
				if tc.err != nil {
					return true, nil, tc.err
				}
				return true, tc.answer, nil
			})
			machine := newMachine(1)
			machine.Status.Flip = flip
			o := &observed{machine: machine}
			if asks := decide(o).Asks; len(asks) != 1 || asks[0] != (readReserved{}) {
				t.Fatalf("it asks %v, want the reserved Switch", asks)
			}
			r := &reconciler{Controller: &Controller{client: client}, key: cache.MetaObjectToName(machine), observed: o}
			err := r.Answer(t.Context(), readReserved{})
			if (err != nil) != tc.fails || o.reservedIsLive == tc.fails {
				t.Errorf("answered: %v, error %v", o.reservedIsLive, err)
			}
			if o.reserved != tc.want {
				t.Errorf("the reserved Switch is %v", o.reserved)
			}
		})
	}
}

func TestInvalidSelectorKeepsTheStatus(t *testing.T) {
	machine := newMachine(1)
	machine.Status.Selector = "machine=m"
	if got := nextStatus(&observed{machine: machine, invalid: "it is invalid", now: time.Now()}).Selector; got != "" {
		t.Errorf("a client that scales by the status selects %q", got)
	}
}

func TestRecordsOfDeletedMachineAreCleared(t *testing.T) {
	c := newControllerWithCaches(nil, nil)
	behind := storeAt("5")
	key := cache.NewObjectName(metav1.NamespaceDefault, "gone")
	c.consistency.WroteAt(key, behind, "7")
	c.memory.unreported(key, []*v1alpha1.Switch{switchOf("stranger")})
	if o, err := c.gather(key); o != nil || err != nil {
		t.Fatalf("gathered %v, %v", o, err)
	}
	if !c.consistency.IsReady(key) {
		t.Error("a Machine that takes its name waits for what was written for this one")
	}
	if _, remembered := c.memory.reported[key]; remembered {
		t.Error("the strangers of a Machine that is gone are remembered")
	}
}

func TestWhyASelectorCannotBeUsedIsGathered(t *testing.T) {
	c := newControllerWithCaches(nil, nil)
	machine := newMachine(1)
	machine.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Matches"}}}
	if err := c.machines.Add(machine); err != nil {
		t.Fatal(err)
	}
	o, err := c.gather(cache.MetaObjectToName(machine))
	if err != nil || o.selector != nil || !strings.Contains(o.invalid, "Matches") {
		t.Errorf("gathered %+v, %v: want why the selector is invalid", o, err)
	}
}

// storeAt is a cache that has reached a resourceVersion.
type storeAt string

func (s storeAt) LastStoreSyncResourceVersion() string { return string(s) }

func TestDeletedSwitchesAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig())))
		client := a.client(a.Do)
		factory := externalversions.NewSharedInformerFactory(client, 0)
		useless := factory.Useless().V1alpha1()
		c, err := New(ctx, client, useless.Machines(), useless.Switches(), record.NewFakeRecorder(100))
		a.must(err)
		factory.StartWithContext(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx, 2) }()
		defer func() { stop(); <-ended; factory.Shutdown() }()
		a.apply(newMachine(5))
		time.Sleep(time.Minute)
		a.scale("m", 1)
		time.Sleep(time.Minute)
		if left := a.ownedBy("uid-m"); len(left) != 1 {
			t.Fatalf("m has %v", left)
		}
		c.memory.mu.Lock()
		defer c.memory.mu.Unlock()
		if deleting := c.memory.deleting; len(deleting) > 0 {
			t.Errorf("%d switches that are gone are remembered", len(deleting))
		}
	})
}
