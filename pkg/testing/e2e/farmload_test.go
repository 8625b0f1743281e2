// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/patience"
)

const (
	// kinds is how many kinds of requests the load sends, and enough how many of each at least.
	kinds  = 5
	enough = 50
)

// farmLoad is a set of clients, each of which sends requests of one kind without a pause.
type farmLoad struct {
	stopAsking, stopWatching context.CancelFunc
	asking, watching         sync.WaitGroup

	mu      sync.Mutex
	longest time.Duration // duration of the longest request
	made    map[string]int
	failed  []string
	watches int
	seen    int
}

// startFarmLoad starts the load in a namespace. Clients repeat requests that fail with 429 or 503, so failures are counted in the
// transport, below the client.
func (s *suite) startFarmLoad(t *testing.T, namespace string) *farmLoad {
	t.Helper()
	ctx, stopWatching := context.WithCancel(t.Context())
	turns, stopAsking := context.WithCancel(ctx)
	load := &farmLoad{stopAsking: stopAsking, stopWatching: stopWatching, made: map[string]int{}}
	config := rest.CopyConfig(s.Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &failures{next: next, load: load} })
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	llamas, farmPods := client.FarmV1alpha().Llamas(namespace), client.FarmV1alpha().FarmPods(farmNamespace)
	kept := &v1alpha.Llama{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Spec: v1alpha.LlamaSpec{Weight: 30, Height: 0.6}}
	if _, err := llamas.Create(ctx, kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for kind, ask := range map[string]func(turn int) error{
		"get":              func(int) error { _, err := llamas.Get(ctx, "kept", metav1.GetOptions{}); return err },
		"list":             func(int) error { _, err := llamas.List(ctx, metav1.ListOptions{}); return err },
		"list of FarmPods": func(int) error { _, err := farmPods.List(ctx, metav1.ListOptions{}); return err },
		"create": func(turn int) error {
			made := kept.DeepCopy()
			made.Name = fmt.Sprint("llama-", turn)
			_, err := llamas.Create(ctx, made, metav1.CreateOptions{})
			return err
		},
		"patch": func(turn int) error {
			patch := fmt.Appendf(nil, `{"spec":{"weight":%d}}`, 30+turn%100)
			_, err := llamas.Patch(ctx, "kept", "application/merge-patch+json", patch, metav1.PatchOptions{})
			return err
		},
	} {
		load.asking.Go(func() { load.ask(turns, kind, ask) })
	}
	load.watching.Go(func() {
		load.watch(ctx, func(version string) (watch.Interface, error) {
			return llamas.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		})
	})
	return load
}

func (l *farmLoad) fail(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, time.Now().Format(time.StampMilli)+" "+what)
}

// ask sends requests until the context ends: the last one gets its answer.
func (l *farmLoad) ask(ctx context.Context, kind string, ask func(turn int) error) {
	for turn := 0; ctx.Err() == nil; turn++ {
		begin := time.Now()
		if err := ask(turn); err != nil {
			l.fail(kind + ": " + err.Error())
			continue
		}
		l.mu.Lock()
		l.made[kind]++
		l.longest = max(l.longest, time.Since(begin))
		l.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // leave CPU to the node
	}
}

// watch counts the Llamas that a watch reports. A new watch starts from where the last one ended, so none is missed.
func (l *farmLoad) watch(ctx context.Context, begin func(version string) (watch.Interface, error)) {
	version := ""
	for ctx.Err() == nil {
		events, err := begin(version)
		if err != nil {
			if ctx.Err() == nil {
				l.fail("watch: " + err.Error())
			}
			continue
		}
		l.mu.Lock()
		l.watches++
		l.mu.Unlock()
		for event := range events.ResultChan() {
			if event.Type == watch.Error {
				if ctx.Err() != nil {
					return
				}
				l.fail(fmt.Sprintf("watch: %v", event.Object))
				version = ""
				continue
			}
			llama := event.Object.(*v1alpha.Llama)
			version = llama.ResourceVersion
			if event.Type == watch.Added && llama.Name != "kept" {
				l.mu.Lock()
				l.seen++
				l.mu.Unlock()
			}
		}
	}
}

// stop returns when there were enough requests, all clients have ended, and the watch has reported all Llamas.
func (l *farmLoad) stop(t *testing.T) {
	t.Helper()
	eventually(t, "there are enough requests of each kind", patience.Limit, func() bool {
		counts := l.counts()
		return len(counts) == kinds && slices.Min(slices.Collect(maps.Values(counts))) >= enough
	})
	l.stopAsking()
	l.asking.Wait()
	made := l.counts()["create"]
	eventually(t, fmt.Sprintf("the watch reports all %d Llamas", made), patience.Limit, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen >= made
	})
	l.stopWatching()
	l.watching.Wait()
}

func (l *farmLoad) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.made)
}

func (l *farmLoad) failures() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.failed)
}

// failures is a transport that records every request without an answer, and every answer 429 or 5xx.
type failures struct {
	next http.RoundTripper
	load *farmLoad
}

// RoundTrip implements http.RoundTripper.
func (f *failures) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(request)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		f.load.fail(request.Method + " " + request.URL.Path + ": " + err.Error())
	case err == nil && (response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests):
		f.load.fail(request.Method + " " + request.URL.Path + ": " + response.Status)
	}
	return response, err
}
