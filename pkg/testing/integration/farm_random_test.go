// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

// The same random operations are done on Llamas, on custom resources of the same shape, and on Llamas in memory. Each has the same
// response, the same effect on the objects, and the same watch events in all three.

const (
	// farmOperations is the number of operations for each of farmSeeds seeds.
	farmOperations, farmSeeds = 250, 3
)

// pasture is a resource in a namespace on which the operations are done.
type pasture struct {
	name    string
	kind    schema.GroupVersionKind
	client  dynamic.ResourceInterface
	history map[string][]string // the resourceVersions of each object, by its name
	watches map[string]*watchedEvents
}

var twins = schema.GroupVersionResource{Group: "example.com", Version: "v1alpha", Resource: "twins"}

func newPasture(t *testing.T, name string, config *rest.Config, resource schema.GroupVersionResource, kind, namespace string) *pasture {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &pasture{
		name: name, kind: resource.GroupVersion().WithKind(kind), client: client.Resource(resource).Namespace(namespace),
		history: map[string][]string{}, watches: map[string]*watchedEvents{},
	}
	list, err := p.client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for selector, options := range map[string]metav1.ListOptions{
		"all": {}, "north": {LabelSelector: "herd=north"}, "amy": {FieldSelector: "metadata.name=amy"},
	} {
		options.ResourceVersion = list.GetResourceVersion()
		watcher, err := p.client.Watch(t.Context(), options)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(watcher.Stop)
		p.watches[selector] = &watchedEvents{watcher: watcher, lines: map[string][]string{}}
	}
	return p
}

// watchedEvents has the events of a watch. They are read when they are compared.
type watchedEvents struct {
	watcher watch.Interface
	// lines are the events by object, because the order of objects that one request deletes is not defined.
	lines   map[string][]string
	version uint64
}

// lastChange is the annotation that the last operation sets.
const lastChange = "last"

// untilLast reads the events up to the last operation.
func (e *watchedEvents) untilLast(t *testing.T) {
	t.Helper()
	for {
		event := next(t, e.watcher)
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("watch: got %+v, want an object", event.Object)
		}
		version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		if err != nil || version <= e.version {
			t.Errorf("watch: got version %s (%v) after %d, want a larger one", object.GetResourceVersion(), err, e.version)
		}
		e.version = version
		if object.GetAnnotations()[lastChange] != "" {
			return
		}
		e.lines[object.GetName()] = append(e.lines[object.GetName()], string(event.Type)+" "+plain(object))
	}
}

// plain returns the part of an object that must be the same in all pastures.
func plain(object *unstructured.Unstructured) string {
	if object == nil {
		return "nothing"
	}
	object = object.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"} {
		if value, there, _ := unstructured.NestedString(object.Object, "metadata", field); there {
			_ = unstructured.SetNestedField(object.Object, strconv.FormatBool(value != ""), "metadata", field)
		}
	}
	managed := object.GetManagedFields()
	slices.SortFunc(managed, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(strings.Compare(a.Manager, b.Manager), strings.Compare(string(a.Operation), string(b.Operation)))
	})
	var managers []string
	for _, entry := range managed {
		if fields := plainFields(entry.FieldsV1); fields != "{}" {
			managers = append(managers, fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, fields))
		}
	}
	object.SetManagedFields(nil)
	object.SetGroupVersionKind(schema.GroupVersionKind{})
	content, err := object.MarshalJSON()
	if err != nil {
		content = fmt.Append(nil, object.Object)
	}
	return string(content) + " " + strings.Join(managers, "; ")
}

// plainFields leaves out the owner of the spec itself: custom resources have it, but a Go struct, which always exists, has not.
func plainFields(fields *metav1.FieldsV1) string {
	var tree map[string]map[string]any
	if err := json.Unmarshal(fields.GetRawBytes(), &tree); err != nil {
		return err.Error()
	}
	if delete(tree["f:spec"], "."); len(tree["f:spec"]) == 0 {
		delete(tree, "f:spec")
	}
	content, err := json.Marshal(tree)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// answer returns the part of a response that must be the same in all pastures.
func answer(object *unstructured.Unstructured, err error) string {
	if err == nil {
		return plain(object)
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", status.Status().Code, status.Status().Reason)
}

func TestFarmRandomOperations(t *testing.T) {
	shared := inSharedFarm(t)
	shared.cluster.Kubectl(t, "apply", "-f", "testdata/farm/twin.yaml")
	shared.cluster.Kubectl(t, "wait", "--for=condition=Established", "--timeout=1m", "crd/twins.example.com")
	inMemory := startFarmServer(t, shared.farm.kubeconfig, "--llama-storage=memory")
	inMemory.awaitReady(t, shared.cluster)
	seeds, given := firstSeed(t)
	count := farmSeeds
	if given {
		count = 1
	}
	for i := range count {
		seed := seeds + uint32(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			e := newFarmEnv(t, shared.farm)
			admin := e.cluster.Config()
			run := &farmRun{farmEnv: e, random: rand.New(rand.NewPCG(uint64(seed), 0))}
			llamas := farmv1alpha.Resource("llamas").WithVersion("v1alpha")
			e.eventually(func() string { // the kind is new
				if _, err := dynamic.NewForConfigOrDie(admin).Resource(twins).Namespace(e.namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
					return err.Error()
				}
				return ""
			})
			run.pastures = []*pasture{
				newPasture(t, "custom resources", admin, twins, "Twin", e.namespace),
				newPasture(t, "Llamas", admin, llamas, "Llama", e.namespace),
				newPasture(t, "Llamas in memory", inMemory.as(admin), llamas, "Llama", e.namespace),
			}
			e.Cleanup(func() {
				if e.Failed() {
					e.Logf("operations:\n%s\nRun the same operations again:\n  %s=%d go test ./pkg/testing/integration -count=1 -run '^TestFarmRandomOperations$'",
						strings.Join(run.done, "\n"), seedVariable, seed)
				}
			})
			for range farmOperations {
				run.do()
				if t.Failed() {
					return // later differences follow from this one
				}
			}
			run.compareEvents()
		})
	}
}

// farmRun does the operations of one seed.
type farmRun struct {
	*farmEnv
	random   *rand.Rand
	pastures []*pasture
	done     []string
}

// do does one operation in each pasture, and compares the responses.
func (r *farmRun) do() {
	r.Helper()
	o := r.draw()
	var first string
	for i, p := range r.pastures {
		object, err := o.do(r, p)
		if err == nil && object != nil && !o.dryRun {
			p.history[o.name] = append(p.history[o.name], object.GetResourceVersion())
		}
		got := answer(object, err)
		if p.kind.Kind == "Twin" {
			if nature, known := differsByNature[o.what]; known && got == nature.twin {
				got = nature.llama
			}
		}
		if i == 0 {
			first = got
			r.done = append(r.done, fmt.Sprintf("%s: %s", o, first))
			continue
		}
		if diff := gocmp.Diff(first, got); diff != "" {
			r.Errorf("%s: response of %s differs from that of %s: %v\n%s", o, p.name, r.pastures[0].name, err, diff)
		}
	}
}

// compareEvents compares the watch events of all operations.
func (r *farmRun) compareEvents() {
	r.Helper()
	for _, p := range r.pastures {
		object := p.object("amy", r.random)
		object.SetLabels(map[string]string{"herd": "north"})
		object.SetAnnotations(map[string]string{lastChange: "true"})
		_, err := p.client.Create(r.Context(), object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			change := map[string]any{"metadata": map[string]any{"labels": object.GetLabels(), "annotations": object.GetAnnotations()}}
			_, err = p.patch(r, "amy", types.MergePatchType, change, metav1.PatchOptions{})
		}
		if err != nil {
			r.Fatal(err)
		}
		for _, events := range p.watches {
			events.untilLast(r.T)
		}
	}
	for selector, first := range r.pastures[0].watches {
		if len(first.lines) == 0 {
			r.Errorf("watch of %s: got no event: nothing is tested", selector)
		}
		for _, p := range r.pastures[1:] {
			got := p.watches[selector].lines
			if diff := gocmp.Diff(withoutMoreRepeats(first.lines, got), got); diff != "" {
				r.Errorf("watch of %s (-%s +%s):\n%s", selector, r.pastures[0].name, p.name, diff)
			}
		}
	}
}

// withoutMoreRepeats returns the events without those that repeat the one before where the others have no such repetition. A second deletion of a
// custom resource that waits for finalizers may write it again as it is: etcd's storage compares encoded objects.
func withoutMoreRepeats(events, others map[string][]string) map[string][]string {
	kept := map[string][]string{}
	for name, lines := range events {
		for _, line := range lines {
			at := len(kept[name])
			repeats := at > 0 && kept[name][at-1] == line
			if repeats && (at >= len(others[name]) || others[name][at] != line) {
				continue
			}
			kept[name] = append(kept[name], line)
		}
	}
	return kept
}
