// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"
)

// journal is what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// take returns what happened since it was last called, once all is quiet.
func (j *journal) take() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// teamOf keys a Pod by its label.
func teamOf(pod *corev1.Pod) []string { return []string{pod.Labels["team"]} }

func podOf(team string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", Labels: map[string]string{"team": team}}}
}

// watchPods runs a loop that writes into the journal which teams are synced and which Pods are gone.
func watchPods(t *testing.T, client *fake.Clientset) *journal { return watchPodsBy(t, client, teamOf) }

func watchPodsBy(t *testing.T, client *fake.Clientset, keys func(*corev1.Pod) []string) *journal {
	return watchPodsOf(t, client, Source[*corev1.Pod, string]{Keys: keys})
}

// watchPodsOf completes the source with its informer and with what it calls for Pods that are gone.
func watchPodsOf(t *testing.T, client *fake.Clientset, source Source[*corev1.Pod, string]) *journal {
	ctx, _ := testContext(t)
	done := &journal{}
	loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
		done.write("sync " + key)
		return 0, nil
	}})
	factory := informers.NewSharedInformerFactory(client, 0)
	source.Informer = factory.Core().V1().Pods().TypedInformer()
	source.Deleted = func(pod *corev1.Pod, final bool) {
		// A worker would be done long before, were the key queued already.
		time.Sleep(time.Second)
		state := "an older"
		if final {
			state = "the final"
		}
		done.write("gone " + teamOf(pod)[0] + ", " + state + " state")
	}
	if err := Watch(ctx, loop, source); err != nil {
		t.Fatal(err)
	}
	inBackground(t, ctx, func(ctx context.Context) {
		factory.StartWithContext(ctx)
		loop.Run(ctx, 1)
		factory.Shutdown()
	})
	return done
}

func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestEveryEventSyncsTheKeysOfItsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(podOf("red"))
		pods := client.CoreV1().Pods("default")
		done := watchPods(t, client)
		want(t, "a Pod that was there before", done.take(), []string{"sync red"})

		if _, err := pods.Update(t.Context(), podOf("blue"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		want(t, "a Pod that moves from one key to another syncs both", done.take(), []string{"sync red", "sync blue"})

		if err := pods.Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want(t, "a Pod that is deleted is first said to be gone, then synced", done.take(),
			[]string{"gone blue, the final state", "sync blue"})

		if _, err := pods.Create(t.Context(), podOf("green"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		want(t, "a Pod that is created", done.take(), []string{"sync green"})
	})
}

func TestAnUpdateSyncsAKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(podOf("red"))
		// A free worker would sync the key of the old state while that of the new one is looked up.
		done := watchPodsBy(t, client, func(pod *corev1.Pod) []string {
			time.Sleep(time.Second)
			return teamOf(pod)
		})
		time.Sleep(time.Minute)
		want(t, "a Pod that was there before", done.take(), []string{"sync red"})
		pod := podOf("red")
		pod.Annotations = map[string]string{"changed": "yes"}
		if _, err := client.CoreV1().Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want(t, "a Pod that keeps its key", done.take(), []string{"sync red"})
	})
}

func TestASourceMayChooseTheKeysOfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(podOf("red"))
		pods := client.CoreV1().Pods("default")
		team := func(pod *corev1.Pod) string {
			if pod == nil {
				return "none"
			}
			return teamOf(pod)[0]
		}
		done := watchPodsOf(t, client, Source[*corev1.Pod, string]{
			Changed: func(before, after *corev1.Pod) []string { return []string{team(before) + "-" + team(after)} },
		})
		want(t, "a Pod that was there before", done.take(), []string{"sync none-red"})
		if _, err := pods.Update(t.Context(), podOf("blue"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		want(t, "a Pod that changes", done.take(), []string{"sync red-blue"})
		if err := pods.Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want(t, "a Pod that is deleted", done.take(), []string{"gone blue, the final state", "sync blue-none"})
	})
}

func TestMissedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(podOf("red"))
		var missing *watch.FakeWatcher
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			missing = watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
			return true, missing, nil
		})
		done := watchPods(t, client)
		want(t, "a Pod that was there before", done.take(), []string{"sync red"})

		if err := client.CoreV1().Pods("default").Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expired := apierrors.NewResourceExpired("too old").Status()
		missing.Error(&expired) // makes the informer list again
		time.Sleep(time.Minute)
		want(t, "the Pod is gone from the new list", done.take(), []string{"gone red, an older state", "sync red"})
	})
}

func TestRunWaitsForTheInitialEventsOfEverySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		client := fake.NewClientset(podOf("red"))
		listed := make(chan struct{})
		client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-listed
			return false, nil, nil
		})
		factory := informers.NewSharedInformerFactory(client, 0)
		done := &journal{}
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
			done.write("sync " + key)
			return 0, nil
		}})
		if err := Watch(ctx, loop, Source[*corev1.Pod, string]{Informer: factory.Core().V1().Pods().TypedInformer(), Keys: teamOf}); err != nil {
			t.Fatal(err)
		}
		loop.Enqueue("early")
		inBackground(t, ctx, func(ctx context.Context) {
			factory.StartWithContext(ctx)
			loop.Run(ctx, 1)
			factory.Shutdown()
		})
		synctest.Wait()
		if len(loop.Synced()) != 1 || cache.IsDone(loop.Synced()[0]) {
			t.Errorf("synced before the Pods were listed: %v", loop.Synced())
		}
		want(t, "before the Pods are listed", done.take(), nil)
		close(listed)
		want(t, "once they are", done.take(), []string{"sync early", "sync red"})
		if !cache.IsDone(loop.Synced()[0]) {
			t.Error("not synced although all initial events were handled")
		}
	})
}

// capturing is an informer that hands out the handler that is registered with it.
type capturing struct {
	cache.TypedSharedIndexInformer[*corev1.Pod]
	handler cache.TypedResourceEventHandler[*corev1.Pod]
	err     error
}

type registration struct{ checker }

func (registration) HasSynced() bool                       { return true }
func (r registration) HasSyncedChecker() cache.DoneChecker { return r.checker }

func (c *capturing) AddTypedEventHandler(
	handler cache.TypedResourceEventHandler[*corev1.Pod], _ ...cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	c.handler = handler
	return registration{closedChecker()}, c.err
}

func TestDeletionWithoutState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		informer, done := &capturing{}, &journal{}
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
			done.write("sync " + key)
			return 0, nil
		}})
		err := Watch(ctx, loop, Source[*corev1.Pod, string]{
			Informer: informer,
			Keys:     teamOf,
			Deleted:  func(*corev1.Pod, bool) { done.write("gone") },
		})
		if err != nil {
			t.Fatal(err)
		}
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
		informer.handler.OnDelete(cache.DeletedObject[*corev1.Pod]{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "default/pod"}})
		want(t, "a deletion without a state", done.take(), nil)
	})
}

func TestDeletedIsOptional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		informer, done := &capturing{}, &journal{}
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
			done.write("sync " + key)
			return 0, nil
		}})
		if err := Watch(ctx, loop, Source[*corev1.Pod, string]{Informer: informer, Keys: teamOf}); err != nil {
			t.Fatal(err)
		}
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
		informer.handler.OnDelete(cache.DeletedObject[*corev1.Pod]{OptionalObj: podOf("red")})
		want(t, "a deletion", done.take(), []string{"sync red"})
	})
}

func TestRegistrationError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		refused := errors.New("the informer was stopped already")
		loop := NewLoop(ctx, Config[string]{Name: "hello", Sync: nil})
		err := Watch(ctx, loop, Source[*corev1.Pod, string]{Informer: &capturing{err: refused}, Keys: teamOf})
		if !errors.Is(err, refused) {
			t.Fatalf("the error is %v, want %v in its chain", err, refused)
		}
		wantContains(t, err.Error(), "hello")
		if len(loop.Synced()) != 0 {
			t.Errorf("the loop waits for %d sources, want none", len(loop.Synced()))
		}
		ended, end := context.WithCancel(ctx)
		end()
		loop.Run(ended, 0)
	})
}

func TestForbiddenListIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, logged := testContext(t)
		client := fake.NewClientset()
		client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(pods, "", errors.New("no"))
		})
		factory := informers.NewSharedInformerFactory(client, 0)
		informer := factory.Core().V1().Pods().Informer()
		ReportWatchErrors(informer, pods)
		inBackground(t, ctx, informer.RunWithContext)
		time.Sleep(500 * time.Millisecond)
		failures := errorsIn(logged())
		if !slices.ContainsFunc(failures, func(entry ktesting.LogEntry) bool {
			return entry.Message == watchAdvice(pods, apierrors.NewForbidden(pods, "", nil))
		}) {
			t.Errorf("logged %v, want what to do about it", failures)
		}
	})
}
