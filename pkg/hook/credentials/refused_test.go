// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// refuse makes requests for Secrets fail as long as the function returns an error.
func (w *world) refuse(why func() error) {
	w.client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := why()
		return err != nil, nil, err
	})
	w.client.PrependWatchReactor("secrets", func(clienttesting.Action) (bool, watch.Interface, error) {
		err := why()
		return err != nil, nil, err
	})
}

func errForbidden() error {
	return apierrors.NewForbidden(corev1.Resource("secrets"), "token", errors.New(`User "engine" cannot list resource "secrets"`))
}

func TestRefusedCallDoesNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var granted atomic.Bool
		tries := 0
		w.refuse(func() error {
			if granted.Load() {
				return nil
			}
			tries++
			return errForbidden()
		})
		hold, calls := w.hold(token)
		w.wantToken(`give this account a Role in the namespace ns with the rule {apiGroups: [""], resources: ["secrets"], resourceNames: ["token"], verbs: ["list", "watch"]}`)
		w.wantToken(`User "engine" cannot list resource "secrets"`)
		if !hold.HasSynced() || calls.Load() != 1 {
			t.Errorf("synced: %t, notified %d times, want once", hold.HasSynced(), calls.Load())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if tries < 100 || tries > 250 {
			t.Errorf("%d tries in an hour", tries)
		}
		if calls.Load() != 1 {
			t.Errorf("notified %d times, want once", calls.Load())
		}
		if lines := strings.Count(w.logged.String(), "\n"); lines != 1 {
			t.Errorf("%d lines in the log, want one:\n%s", lines, w.logged.String())
		}
		granted.Store(true)
		time.Sleep(retryMax)
		w.wantToken("secret")
		if calls.Load() != 2 {
			t.Errorf("notified %d times, want 2: the right was given", calls.Load())
		}
	}, secret("token", "secret"))
}

func TestWhatWasReadStaysWhenTheRightIsTakenAway(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var watched watch.Interface
		w.client.PrependWatchReactor("secrets", func(action clienttesting.Action) (bool, watch.Interface, error) {
			if watched != nil {
				return true, nil, errForbidden()
			}
			var err error
			watched, err = w.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
			return true, watched, err
		})
		_, calls := w.hold(token)
		w.wantToken("secret")
		watched.Stop()
		time.Sleep(time.Hour)
		w.wantToken("secret")
		if calls.Load() != 1 || strings.Count(w.logged.String(), "no right to watch it") != 1 {
			t.Errorf("notified %d times, want once, and one line in the log:\n%s", calls.Load(), w.logged.String())
		}
	}, secret("token", "secret"))
}

func TestRevokedRight(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var refused atomic.Bool
		var watched watch.Interface
		w.client.PrependWatchReactor("secrets", func(action clienttesting.Action) (handled bool, _ watch.Interface, err error) {
			if refused.Load() {
				return true, nil, errForbidden()
			}
			watched, err = w.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
			return true, watched, err
		})
		w.hold(token)
		w.wantToken("it does not exist")
		refused.Store(true)
		watched.Stop()
		time.Sleep(time.Minute)
		w.wantToken("no right to watch it")
		refused.Store(false)
		time.Sleep(retryMax)
		w.wantToken("it does not exist")
	})
}

func TestAnAPIServerThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var up atomic.Bool
		w.refuse(func() error {
			if up.Load() {
				return nil
			}
			return apierrors.NewGenericServerResponse(http.StatusInternalServerError, "list", corev1.Resource("secrets"), "", "etcd is away", 0, true)
		})
		hold, calls := w.hold(token)
		w.wantToken("it cannot be watched now: ")
		time.Sleep(time.Minute)
		w.wantToken("etcd is away")
		if hold.HasSynced() || calls.Load() != 0 {
			t.Errorf("synced: %t, notified %d times, though nothing is known", hold.HasSynced(), calls.Load())
		}
		up.Store(true)
		time.Sleep(retryMax)
		w.wantToken("secret")
		if !hold.HasSynced() || calls.Load() != 1 {
			t.Errorf("synced: %t, notified %d times, want once", hold.HasSynced(), calls.Load())
		}
	}, secret("token", "secret"))
}

func TestImpossibleName(t *testing.T) {
	for name, ref := range map[string]Ref{
		"no namespace is given":        {Secret, "", "token"},
		"no name is given":             {Secret, "ns", ""},
		`the namespace "../x" may not`: {Secret, "../x", "token"},
		`the name "a/b" may not`:       {Secret, "ns", "a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				hold, _ := w.hold(ref)
				synctest.Wait()
				_, err := w.Secret(ref.Namespace, ref.Name)
				if err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("error %v, want %q", err, name)
				}
				if !hold.HasSynced() || len(w.client.Actions()) > 0 {
					t.Errorf("synced: %t, %d requests, want none", hold.HasSynced(), len(w.client.Actions()))
				}
			})
		})
	}
}

func TestTheDataAreNeverLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		fail := false
		w.refuse(func() error {
			if fail = !fail; fail {
				return errForbidden()
			}
			return nil
		})
		w.hold(token)
		time.Sleep(time.Minute)
		w.wantToken("s3cret")
		if w.logged.String() == "" || strings.Contains(w.logged.String(), "s3cret") || strings.Contains(w.logged.String(), fmt.Sprint([]byte("s3cret"))) {
			t.Errorf("the log is %q", w.logged.String())
		}
	}, secret("token", "s3cret"))
}

// away is an API server that nothing listens for.
type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

func TestTheEndDoesNotWaitForAnAPIServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://away", Transport: away{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0)))))
		source := New(ctx, client)
		source.Hold(func() {}, token)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if _, err := source.Secret("ns", "token"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("error %v, which does not tell why nothing is read", err)
		}
		ended := time.Now()
		stop()
		source.Wait()
		if lasted := time.Since(ended); lasted > 0 {
			t.Errorf("the end lasted %s", lasted)
		}
	})
}
