// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/patience"
)

// inParallel calls do for each i below count, with up to 8 calls running concurrently.
func inParallel(count int, do func(i int) error) error {
	const atATime = 8
	var running sync.WaitGroup
	errs := make(chan error, atATime)
	for worker := range atATime {
		running.Go(func() {
			for i := worker; i < count; i += atATime {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	running.Wait()
	close(errs)
	return <-errs
}

func TestFarmPodPages(t *testing.T) {
	e := inSharedFarm(t)
	const count = 1200
	err := inParallel(count, func(i int) error {
		_, err := e.kube.CoreV1().Pods(e.namespace).Create(t.Context(), newPod(fmt.Sprintf("pod-%04d", i), 1, onNoNode), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	first, err := e.pods.List(t.Context(), metav1.ListOptions{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Items) != 500 || first.Continue == "" || ptr.Deref(first.RemainingItemCount, 0) != count-500 {
		t.Fatalf("first page: got %d items and %v remaining, want 500 and %d", len(first.Items), first.RemainingItemCount, count-500)
	}
	e.createPod("a-late-one", 1) // it would be on the first page
	e.createPod("pod-1111-late", 1)
	pages := []*farmv1alpha.FarmPodList{first}
	for token := first.Continue; token != ""; {
		page, err := e.pods.List(t.Context(), metav1.ListOptions{Limit: 500, Continue: token})
		if err != nil {
			t.Fatal(err)
		}
		pages, token = append(pages, page), page.Continue
	}
	var names, want []string
	for _, page := range pages {
		if page.ResourceVersion != first.ResourceVersion {
			t.Errorf("version of a page: got %s, want %s as on the first", page.ResourceVersion, first.ResourceVersion)
		}
		names = append(names, farmPodNames(page)...)
	}
	for i := range count {
		want = append(want, fmt.Sprintf("farm-pod-%04d", i))
	}
	if diff := cmp.Diff(want, names); diff != "" || len(pages) != 3 {
		t.Errorf("names on %d pages (-want +got):\n%s", len(pages), diff)
	}
	if rows := table(e.kubectl("get", "farmpods", "--no-headers", "--chunk-size=500")); len(rows) != count+2 {
		t.Errorf("kubectl get --chunk-size=500: got %d rows, want %d", len(rows), count+2)
	}
	_, err = e.pods.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: "no-token"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("invalid continue token: got %v, want a bad request", err)
	}
}

func TestFarmLlamaPages(t *testing.T) {
	e := inSharedFarm(t)
	for i := range 25 {
		e.createLlama(newLlama(fmt.Sprintf("llama-%02d", i), labelled("even", fmt.Sprint(i%2 == 0))))
	}
	for selector, count := range map[string]int{"": 25, "even=true": 13} {
		first, err := e.llamas.List(t.Context(), metav1.ListOptions{Limit: 10, LabelSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		late := e.createLlama(newLlama("a-late-one", labelled("even", "true")))
		names := llamaNames(first)
		for token := first.Continue; token != ""; {
			page, err := e.llamas.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: token, LabelSelector: selector})
			if err != nil {
				t.Fatal(err)
			}
			if page.ResourceVersion != first.ResourceVersion || len(page.Items) > 10 {
				t.Errorf("%q: got a page of %d in version %s, want 10 at most in version %s", selector, len(page.Items), page.ResourceVersion, first.ResourceVersion)
			}
			names, token = append(names, llamaNames(page)...), page.Continue
		}
		if len(first.Items) != 10 || len(names) != count || !slices.IsSorted(names) {
			t.Errorf("%q: got %v on all pages, want %d sorted names", selector, names, count)
		}
		if err := e.llamas.Delete(t.Context(), late.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFarmResourceVersions(t *testing.T) {
	e := inSharedFarm(t)
	amy := e.createLlama(newLlama("amy"))
	pod := e.createPod("one", 1, onNoNode)
	e.createLlama(newLlama("bea"))
	e.createPod("two", 1, onNoNode)
	e.awaitUnschedulable("one")
	shown := e.farmPod("farm-one")
	if now, err := e.kube.CoreV1().Pods(e.namespace).Get(t.Context(), "one", metav1.GetOptions{}); err != nil || shown.ResourceVersion != now.ResourceVersion {
		t.Errorf("version of the FarmPod: got %s, want %s as of the Pod (%v)", shown.ResourceVersion, now.ResourceVersion, err)
	}
	for resource, test := range map[string]struct {
		list  func(metav1.ListOptions) (metav1.ListInterface, int, error)
		since string
	}{
		"llamas": {func(options metav1.ListOptions) (metav1.ListInterface, int, error) {
			list, err := e.llamas.List(t.Context(), options)
			return list, len(list.Items), err
		}, amy.ResourceVersion},
		"farmpods": {func(options metav1.ListOptions) (metav1.ListInterface, int, error) {
			list, err := e.pods.List(t.Context(), options)
			return list, len(list.Items), err
		}, pod.ResourceVersion},
	} {
		newest, count, err := test.list(metav1.ListOptions{})
		if err != nil || count != 2 {
			t.Fatalf("list of %s: got %d, %v, want 2", resource, count, err)
		}
		if _, count, err := test.list(metav1.ListOptions{ResourceVersion: "0"}); err != nil || count > 2 {
			t.Errorf("list of %s in any version: got %d, %v, want 2 at most", resource, count, err)
		}
		notOlder := metav1.ListOptions{ResourceVersion: newest.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
		if _, count, err := test.list(notOlder); err != nil || count != 2 {
			t.Errorf("list of %s not older than the newest: got %d, %v, want 2", resource, count, err)
		}
		exact := metav1.ListOptions{ResourceVersion: test.since, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		if list, count, err := test.list(exact); err != nil || count != 1 || list.GetResourceVersion() != test.since {
			t.Errorf("list of %s in exactly the first version: got %d, %v, want 1", resource, count, err)
		}
		// The client is asked to retry. The server itself does not wait for the version.
		err = e.client.FarmV1alpha().RESTClient().Get().Namespace(e.namespace).Resource(resource).
			Param("resourceVersion", "99999999999").MaxRetries(0).Do(t.Context()).Error()
		if !apierrors.IsTimeout(err) || !strings.Contains(fmt.Sprint(err), "Too large resource version") {
			t.Errorf("list of %s in a future version: got %v, want a timeout", resource, err)
		}
		if _, _, err := test.list(metav1.ListOptions{ResourceVersion: "words"}); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
			t.Errorf("list of %s in an invalid version: got %v, want invalid", resource, err)
		}
		if _, _, err := test.list(metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsInvalid(err) {
			t.Errorf("list of %s in exactly no version: got %v, want invalid", resource, err)
		}
	}
}

// farmWatch starts a watch of Llamas or FarmPods.
type farmWatch func(context.Context, metav1.ListOptions) (watch.Interface, error)

func TestFarmWatchFromVersion(t *testing.T) {
	e := inSharedFarm(t)
	old := e.createLlama(newLlama("amy", labelled("herd", "north")))
	e.createLlama(newLlama("bea"))
	herd := func(name, herd string) {
		t.Helper()
		e.kubectl("label", "--overwrite", "llama", name, "herd="+herd)
	}
	begin := func(options metav1.ListOptions) watch.Interface {
		t.Helper()
		options.ResourceVersion = old.ResourceVersion
		watcher, err := e.llamas.Watch(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(watcher.Stop)
		return watcher
	}
	north, only := begin(metav1.ListOptions{LabelSelector: "herd=north"}), begin(metav1.ListOptions{FieldSelector: "metadata.name=bea"})
	herd("bea", "north")
	herd("bea", "south")
	herd("bea", "north")
	if err := e.llamas.Delete(t.Context(), "bea", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	version := old.ResourceVersion
	for range 4 {
		event := next(t, north)
		llama := event.Object.(*farmv1alpha.Llama)
		got = append(got, fmt.Sprint(event.Type, " ", llama.Name, " ", llama.Labels["herd"]))
		if llama.ResourceVersion <= version && len(llama.ResourceVersion) <= len(version) {
			t.Errorf("watch: got version %s after %s, want a larger one", llama.ResourceVersion, version)
		}
		version = llama.ResourceVersion
	}
	if diff := cmp.Diff([]string{"ADDED bea north", "DELETED bea north", "ADDED bea north", "DELETED bea north"}, got); diff != "" {
		t.Errorf("watch with a label selector (-want +got):\n%s", diff)
	}
	got = nil
	for range 5 {
		event := next(t, only)
		got = append(got, fmt.Sprint(event.Type, " ", event.Object.(*farmv1alpha.Llama).Labels["herd"]))
	}
	if diff := cmp.Diff([]string{"ADDED ", "MODIFIED north", "MODIFIED south", "MODIFIED north", "DELETED north"}, got); diff != "" {
		t.Errorf("watch with a field selector (-want +got):\n%s", diff)
	}
}

func TestFarmWatchList(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("amy"))
	e.createLlama(newLlama("bea", labelled("herd", "north")))
	e.createPod("amy", 1)
	e.createPod("bea", 1, func(pod *corev1.Pod) { pod.Labels = map[string]string{"herd": "north"} })
	for resource, begin := range map[string]farmWatch{"llamas": e.llamas.Watch, "farmpods": e.pods.Watch} {
		for _, options := range []metav1.ListOptions{{}, {LabelSelector: "herd=north"}, {FieldSelector: "metadata.name=none"}} {
			options.SendInitialEvents, options.ResourceVersionMatch, options.AllowWatchBookmarks = ptr.To(true), metav1.ResourceVersionMatchNotOlderThan, true
			watcher, err := begin(t.Context(), options)
			if err != nil {
				t.Errorf("%s: %v", resource, err)
				continue
			}
			var names []string
			var end metav1.Object
			for end == nil {
				event := next(t, watcher)
				object := event.Object.(metav1.Object)
				switch {
				case event.Type == watch.Added:
					names = append(names, strings.TrimPrefix(object.GetName(), "farm-"))
				case event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
					end = object
				case event.Type != watch.Modified: // the node may have changed a Pod meanwhile
					t.Fatalf("%s: %s %+v", resource, event.Type, event.Object)
				}
			}
			watcher.Stop()
			slices.Sort(names)
			want := map[string][]string{"": {"amy", "bea"}, "herd=north": {"bea"}}[options.LabelSelector]
			if options.FieldSelector != "" {
				want = nil
			}
			if diff := cmp.Diff(want, names); diff != "" || end.GetName() != "" || end.GetResourceVersion() == "" {
				t.Errorf("%s, %+v (-want +got):\n%s\nand the bookmark %+v", resource, options, diff, end)
			}
			// A new watch continues from the version of the bookmark.
			from := metav1.ListOptions{ResourceVersion: end.GetResourceVersion(), TimeoutSeconds: ptr.To(int64(1)), LabelSelector: "herd=nowhere"}
			limited, cancel := context.WithTimeout(t.Context(), patience.Limit)
			again, err := begin(limited, from)
			if err != nil {
				t.Fatalf("%s: %v", resource, err)
			}
			for event := range again.ResultChan() {
				t.Errorf("%s: watch from the bookmark: got %s %+v, want no event", resource, event.Type, event.Object)
			}
			if limited.Err() != nil {
				t.Errorf("%s: a watch with a timeout of 1 s has not ended after %s", resource, patience.Limit)
			}
			cancel()
		}
		without := metav1.ListOptions{SendInitialEvents: ptr.To(true)}
		if _, err := begin(t.Context(), without); !apierrors.IsInvalid(err) {
			t.Errorf("%s: watch list without resourceVersionMatch: got %v, want invalid", resource, err)
		}
	}
}
