// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
)

// keyOf returns the key with this text. "a/" is the key of the namespace a.
func keyOf(text string) cache.ObjectName {
	namespace, name, _ := strings.Cut(text, "/")
	return cache.ObjectName{Namespace: namespace, Name: name}
}

// runNamespaceLoop runs a loop with this number of workers, to which the keys were added before.
func runNamespaceLoop(t *testing.T, workers int, sync SyncFunc[cache.ObjectName], keys ...string) *Loop[cache.ObjectName] {
	ctx, _ := testContext(t)
	loop := NewLoop(ctx, Config[cache.ObjectName]{Name: "test", Queue: NewNamespaceQueue(), Sync: sync})
	for _, key := range keys {
		loop.Enqueue(keyOf(key))
	}
	inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, workers) })
	return loop
}

func TestNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := newSyncs()
		runNamespaceLoop(t, 1, func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
			if done.record(key.String()) == 0 {
				return 7777 * time.Millisecond, nil
			}
			return 0, nil
		}, "a/1", "a/2", "a/3", "b/1", "a/")
		synctest.Wait()
		if diff := cmp.Diff([]string{"a/1", "b/1", "a/", "a/2", "a/3"}, done.inOrder()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]time.Duration{0, 7777 * time.Millisecond}, done.timesOf("b/1")); diff != "" {
			t.Errorf("a delay is not extended (-want +got):\n%s", diff)
		}
	})
}

func TestANamespaceLeavesWorkersToOthers(t *testing.T) {
	for workers, most := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 16: 12} {
		synctest.Test(t, func(t *testing.T) {
			var keys []string
			for i := range 100 {
				keys = append(keys, fmt.Sprint("a/", i))
			}
			var mu sync.Mutex
			running, longest := map[string]int{}, map[string]int{}
			done := newSyncs()
			loop := runNamespaceLoop(t, workers, func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
				mu.Lock()
				running[key.Namespace]++
				longest[key.Namespace] = max(longest[key.Namespace], running[key.Namespace])
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				running[key.Namespace]--
				mu.Unlock()
				done.record(key.String())
				return 0, nil
			}, keys...)
			time.Sleep(time.Second)
			loop.Enqueue(keyOf("b/1"))
			time.Sleep(3 * time.Hour)
			mu.Lock()
			if longest["a"] != most {
				t.Errorf("%d workers: a namespace has %d, want %d", workers, longest["a"], most)
			}
			mu.Unlock()
			if got := done.inOrder(); len(got) != 101 {
				t.Errorf("%d workers: synced %d keys, want all", workers, len(got))
			}
			got := done.timesOf("b/1")[0]
			if want := time.Minute + time.Second; most < workers && got != want {
				t.Errorf("%d workers: the key of another namespace is synced after %v, want %v: a worker is free", workers, got, want)
			}
		})
	}
}

// Whatever is added and when: every key is synced after it was added, and none twice at the same time.
func TestNamespaceQueueLosesNothing(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			pending, running, between := map[cache.ObjectName]bool{}, map[cache.ObjectName]bool{}, rand.New(rand.NewPCG(seed, 1))
			loop := runNamespaceLoop(t, 1+random.IntN(6), func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
				mu.Lock()
				if running[key] {
					t.Errorf("%v is synced twice at the same time", key)
				}
				running[key] = true
				delete(pending, key)
				delay := time.Duration(between.IntN(50)) * time.Millisecond
				mu.Unlock()
				time.Sleep(delay)
				mu.Lock()
				delete(running, key)
				mu.Unlock()
				return 0, nil
			})
			for range 300 {
				key := keyOf(fmt.Sprintf("%c/%d", 'a'+rune(random.IntN(3)), random.IntN(20)))
				mu.Lock()
				pending[key] = true
				mu.Unlock()
				loop.Enqueue(key)
				if random.IntN(3) == 0 {
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				}
			}
			time.Sleep(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if len(pending) > 0 {
				t.Errorf("seed %d: never synced: %v", seed, pending)
			}
			queue := loop.shared.(*NamespaceQueue)
			queue.mu.Lock()
			defer queue.mu.Unlock()
			if queue.length != 0 || len(queue.taken) != 0 || len(queue.held) != 0 {
				t.Errorf("seed %d: left behind: %d in line, %v taken, %v held", seed, queue.length, queue.taken, queue.held)
			}
		})
	}
}
