// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

var token, bundle = Ref{Secret, "ns", "token"}, Ref{ConfigMap, "ns", "bundle"}

// world is a Source on a fake client, in a bubble.
type world struct {
	*Source
	t      *testing.T
	client *fake.Clientset
	logged ktesting.Buffer
	end    func()
}

// inBubble runs a test with a Source. All that the source has started must have ended with it.
func inBubble(t *testing.T, test func(t *testing.T, w *world), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
		client := fake.NewClientset(objects...)
		w := &world{Source: New(ctx, client), t: t, client: client, logged: logger.GetSink().(ktesting.Underlier).GetBuffer()}
		w.end = func() {
			stop()
			w.Wait()
		}
		defer w.end()
		test(t, w)
	})
}

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"token": []byte(value)}}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"ca.crt": value}}
}

// hold holds the objects, and counts how often it is notified of a change.
func (w *world) hold(refs ...Ref) (*Hold, *atomic.Int32) {
	calls := &atomic.Int32{}
	return w.Hold(func() { calls.Add(1) }, refs...), calls
}

// wantToken reads the token, which must be what is wanted; an error must say it.
func (w *world) wantToken(want string) {
	w.t.Helper()
	synctest.Wait()
	data, err := w.Secret("ns", "token")
	if err != nil {
		if !strings.Contains(err.Error(), want) {
			w.t.Errorf("error %q, want %q", err, want)
		}
		return
	}
	if got := string(data["token"]); got != want {
		w.t.Errorf("the token is %q, want %q", got, want)
	}
}

func TestRotationIsNotifiedImmediately(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		hold, calls := w.hold(token, bundle)
		w.wantToken("old")
		if !hold.HasSynced() || calls.Load() != 2 {
			t.Errorf("synced: %t, notified %d times, want once of each object", hold.HasSynced(), calls.Load())
		}
		if _, err := w.client.CoreV1().Secrets("ns").Update(t.Context(), secret("token", "new"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantToken("new")
		if calls.Load() != 3 {
			t.Errorf("notified %d times, want 3", calls.Load())
		}
		if _, err := w.client.CoreV1().ConfigMaps("ns").Update(t.Context(), configMap("bundle", "another CA"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		data, err := w.ConfigMap("ns", "bundle")
		if diff := cmp.Diff(map[string]string{"ca.crt": "another CA"}, data); err != nil || diff != "" {
			t.Errorf("ConfigMap: %v (-want +got):\n%s", err, diff)
		}
	}, secret("token", "old"), configMap("bundle", "a CA"))
}

func TestUnchangedDataIsNotNotified(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, calls := w.hold(token)
		synctest.Wait()
		labelled := secret("token", "same")
		labelled.Labels = map[string]string{"rotated": "no"}
		if _, err := w.client.CoreV1().Secrets("ns").Update(t.Context(), labelled, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantToken("same")
		if calls.Load() != 1 {
			t.Errorf("notified %d times, want once: when it was read first", calls.Load())
		}
	}, secret("token", "same"))
}

func TestAnObjectMayComeLateAndGo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		hold, calls := w.hold(token)
		w.wantToken("it does not exist")
		if !hold.HasSynced() || calls.Load() != 1 {
			t.Errorf("synced: %t, notified %d times: that it is missing is known", hold.HasSynced(), calls.Load())
		}
		for name, value := range map[string]string{"token": "here", "another": "of no interest"} {
			if _, err := w.client.CoreV1().Secrets("ns").Create(t.Context(), secret(name, value), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.wantToken("here")
		if calls.Load() != 2 {
			t.Errorf("notified %d times, want 2", calls.Load())
		}
		for _, name := range []string{"another", "token"} {
			if err := w.client.CoreV1().Secrets("ns").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.wantToken("it does not exist")
		if calls.Load() != 3 {
			t.Errorf("notified %d times, want 3", calls.Load())
		}
	})
}

func TestEachObjectIsAskedForAloneByItsName(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.hold(token, bundle)
		synctest.Wait()
		asked := map[string]string{}
		for _, action := range w.client.Actions() {
			switch a := action.(type) {
			case clienttesting.ListAction:
				asked["list "+a.GetResource().Resource+" in "+a.GetNamespace()] = a.GetListRestrictions().Fields.String()
			case clienttesting.WatchAction:
				asked["watch "+a.GetResource().Resource+" in "+a.GetNamespace()] = a.GetWatchRestrictions().Fields.String()
			}
		}
		if diff := cmp.Diff(map[string]string{
			"list secrets in ns": "metadata.name=token", "watch secrets in ns": "metadata.name=token",
			"list configmaps in ns": "metadata.name=bundle", "watch configmaps in ns": "metadata.name=bundle",
		}, asked); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestTheWatchEndsWithItsLastHold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wantToken("it is not held")
		first, firstCalls := w.hold(token)
		w.wantToken("old")
		second, secondCalls := w.hold(token, token) // it is known already
		first.Release()
		first.Release()
		update := func(value string) {
			if _, err := w.client.CoreV1().Secrets("ns").Update(t.Context(), secret("token", value), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		update("new")
		w.wantToken("new")
		if firstCalls.Load() != 1 || secondCalls.Load() != 1 {
			t.Errorf("notified %d and %d times, want once of the object, and once of its update", firstCalls.Load(), secondCalls.Load())
		}
		requests := len(w.client.Actions())
		second.Release()
		w.wantToken("it is not held")
		update("newest")
		w.running.Wait() // nothing is left to run, though the context lives
		third, _ := w.hold(token)
		w.wantToken("newest")
		if got := len(w.client.Actions()) - requests; got != 3 {
			t.Errorf("%d requests, want an update, a list and a watch", got)
		}
		third.Release()
	}, secret("token", "old"))
}

func TestReleaseDuringNotification(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var hold *Hold
		ready, done := make(chan struct{}), make(chan struct{})
		hold = w.Hold(func() {
			<-ready
			hold.Release()
			close(done)
		}, token)
		close(ready)
		<-done
		w.wantToken("it is not held")
	}, secret("token", "x"))
}

func TestNoNotificationAfterRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var holds [2]*Hold
		notified := 0
		ready := make(chan struct{})
		for i := range holds {
			holds[i] = w.Hold(func() {
				<-ready
				notified++
				holds[1-i].Release()
			}, token)
		}
		close(ready)
		synctest.Wait()
		if notified != 1 {
			t.Errorf("%d are notified: the first one releases the other", notified)
		}
	}, secret("token", "x"))
}

func TestNothingIsStartedAfterTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.end()
		hold, _ := w.hold(token)
		synctest.Wait()
		if len(w.client.Actions()) > 0 {
			t.Errorf("%d requests after the end", len(w.client.Actions()))
		}
		hold.Release()
	})
}
