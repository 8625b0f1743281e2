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
	"time"

	"millwright.dev/pkg/testing/testcluster"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

// inParallel does something so often, a few at a time.
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
		t.Fatalf("the first page has %d, and %v are to come", len(first.Items), first.RemainingItemCount)
	}
	e.createPod("a-late-one", 1) // which would be on the first page
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
			t.Errorf("a page is of version %s, the first of %s", page.ResourceVersion, first.ResourceVersion)
		}
		names = append(names, farmPodNames(page)...)
	}
	for i := range count {
		want = append(want, fmt.Sprintf("farm-pod-%04d", i))
	}
	if diff := cmp.Diff(want, names); diff != "" || len(pages) != 3 {
		t.Errorf("%d pages (-want +got):\n%s", len(pages), diff)
	}
	if rows := table(e.kubectl("get", "farmpods", "--no-headers", "--chunk-size=500")); len(rows) != count+2 {
		t.Errorf("kubectl, which reads pages, prints %d", len(rows))
	}
	_, err = e.pods.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: "no-token"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("a token that is none: %v", err)
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
				t.Errorf("%q: a page of %d in version %s, the first is of %s", selector, len(page.Items), page.ResourceVersion, first.ResourceVersion)
			}
			names, token = append(names, llamaNames(page)...), page.Continue
		}
		if len(first.Items) != 10 || len(names) != count || !slices.IsSorted(names) {
			t.Errorf("%q: the pages have %v", selector, names)
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
		t.Errorf("it is in version %s, the Pod in %s, %v", shown.ResourceVersion, now.ResourceVersion, err)
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
			t.Fatalf("%s: %d, %v", resource, count, err)
		}
		if _, count, err := test.list(metav1.ListOptions{ResourceVersion: "0"}); err != nil || count > 2 {
			t.Errorf("%s, of any version: %d, %v", resource, count, err)
		}
		notOlder := metav1.ListOptions{ResourceVersion: newest.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
		if _, count, err := test.list(notOlder); err != nil || count != 2 {
			t.Errorf("%s, not older: %d, %v", resource, count, err)
		}
		exact := metav1.ListOptions{ResourceVersion: test.since, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		if list, count, err := test.list(exact); err != nil || count != 1 || list.GetResourceVersion() != test.since {
			t.Errorf("%s, exactly then: %d, %v", resource, count, err)
		}
		// Whoever asks is told to ask again, and must not wait for a server that does so itself.
		begin := time.Now()
		err = e.client.FarmV1alpha().RESTClient().Get().Namespace(e.namespace).Resource(resource).Param("resourceVersion", "99999999999").MaxRetries(0).Do(t.Context()).Error()
		if took := time.Since(begin); !apierrors.IsTimeout(err) || !strings.Contains(fmt.Sprint(err), "Too large resource version") || took > testcluster.Stretch(10*time.Second, begin) {
			t.Errorf("%s, of a version to come, after %s: %v", resource, took, err)
		}
		if _, _, err := test.list(metav1.ListOptions{ResourceVersion: "words"}); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s, of no version: %v", resource, err)
		}
		if _, _, err := test.list(metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsInvalid(err) {
			t.Errorf("%s, exactly no version: %v", resource, err)
		}
	}
}

// farmWatch begins a watch of one of the two.
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
	var told []string
	version := old.ResourceVersion
	for range 4 {
		event := next(t, north)
		llama := event.Object.(*farmv1alpha.Llama)
		told = append(told, fmt.Sprint(event.Type, " ", llama.Name, " ", llama.Labels["herd"]))
		if llama.ResourceVersion <= version && len(llama.ResourceVersion) <= len(version) {
			t.Errorf("after version %s comes %s", version, llama.ResourceVersion)
		}
		version = llama.ResourceVersion
	}
	if diff := cmp.Diff([]string{"ADDED bea north", "DELETED bea north", "ADDED bea north", "DELETED bea north"}, told); diff != "" {
		t.Errorf("of those in the north (-want +got):\n%s", diff)
	}
	told = nil
	for range 5 {
		event := next(t, only)
		told = append(told, fmt.Sprint(event.Type, " ", event.Object.(*farmv1alpha.Llama).Labels["herd"]))
	}
	if diff := cmp.Diff([]string{"ADDED ", "MODIFIED north", "MODIFIED south", "MODIFIED north", "DELETED north"}, told); diff != "" {
		t.Errorf("of the one (-want +got):\n%s", diff)
	}
}

func TestFarmWatchList(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("amy"))
	e.createLlama(newLlama("bea", labelled("herd", "north")))
	e.createPod("amy", 1)
	e.createPod("bea", 1, func(pod *corev1.Pod) { pod.Labels = map[string]string{"herd": "north"} })
	for resource, begin := range map[string]farmWatch{"llamas": e.llamas.Watch, "farmpods": e.pods.Watch} {
		for _, options := range []metav1.ListOptions{{}, {LabelSelector: "herd=north"}, {FieldSelector: "metadata.name=nobody"}} {
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
				case event.Type != watch.Modified: // the node may have seen a Pod meanwhile
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
				t.Errorf("%s, %+v (-want +got):\n%s\nand the end %+v", resource, options, diff, end)
			}
			// A watch goes on where it ended.
			again, err := begin(t.Context(), metav1.ListOptions{ResourceVersion: end.GetResourceVersion(), TimeoutSeconds: ptr.To(int64(1)), LabelSelector: "herd=nowhere"})
			if err != nil {
				t.Errorf("%s: %v", resource, err)
				continue
			}
			ended := time.Now()
			for event := range again.ResultChan() {
				t.Errorf("%s: after all was told comes %s %+v", resource, event.Type, event.Object)
			}
			if took := time.Since(ended); took > testcluster.Stretch(10*time.Second, ended) {
				t.Errorf("%s: a watch of a second took %s", resource, took)
			}
		}
		without := metav1.ListOptions{SendInitialEvents: ptr.To(true)}
		if _, err := begin(t.Context(), without); !apierrors.IsInvalid(err) {
			t.Errorf("%s: a watch that begins with all, of no version: %v", resource, err)
		}
	}
}
