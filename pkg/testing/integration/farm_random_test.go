// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
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

// The same random operations on Llamas, on custom resources of the same shape, and on Llamas in memory: each is answered alike, leaves alike
// objects, and is told alike to who watches.

const (
	// farmOperations is how many are done by each of farmSeeds.
	farmOperations, farmSeeds = 250, 3
)

// pasture is where the operations are done: one resource in one namespace.
type pasture struct {
	name    string
	kind    schema.GroupVersionKind
	client  dynamic.ResourceInterface
	history map[string][]string // versions that each object had, by its name
	watches map[string]*toldEvents
}

var twins = schema.GroupVersionResource{Group: "example.com", Version: "v1alpha", Resource: "twins"}

func newPasture(t *testing.T, name string, config *rest.Config, resource schema.GroupVersionResource, kind, namespace string) *pasture {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &pasture{name: name, kind: resource.GroupVersion().WithKind(kind), client: client.Resource(resource).Namespace(namespace), history: map[string][]string{}, watches: map[string]*toldEvents{}}
	list, err := p.client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for selector, options := range map[string]metav1.ListOptions{"all": {}, "north": {LabelSelector: "herd=north"}, "amy": {FieldSelector: "metadata.name=amy"}} {
		options.ResourceVersion = list.GetResourceVersion()
		watcher, err := p.client.Watch(t.Context(), options)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(watcher.Stop)
		p.watches[selector] = &toldEvents{watcher: watcher, lines: map[string][]string{}}
	}
	return p
}

// toldEvents are read when they are compared.
type toldEvents struct {
	watcher watch.Interface
	// lines are the events of each object: those that are deleted in one request go in any order.
	lines   map[string][]string
	version uint64
}

// lastChange is the annotation of the object that is changed after all operations.
const lastChange = "last"

// untilLast reads events until that change.
func (e *toldEvents) untilLast(t *testing.T) {
	t.Helper()
	for {
		event := next(t, e.watcher)
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("a watch ends with %+v", event.Object)
		}
		version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		if err != nil || version <= e.version {
			t.Errorf("after version %d comes %s: %v", e.version, object.GetResourceVersion(), err)
		}
		e.version = version
		if object.GetAnnotations()[lastChange] != "" {
			return
		}
		e.lines[object.GetName()] = append(e.lines[object.GetName()], string(event.Type)+" "+plain(object))
	}
}

// plain is what of an object must be alike in all pastures.
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

// plainFields leaves out that somebody has set the spec at all: it is kept of custom resources, and not of a Go struct, which always is there.
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

// answer is what of an answer must be alike.
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
	seeds, count := rand.Uint32(), farmSeeds
	if given := os.Getenv(seedVariable); given != "" {
		seed, err := strconv.ParseUint(given, 10, 32)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		seeds, count = uint32(seed), 1
	}
	for i := range count {
		seed := seeds + uint32(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			e := newFarmEnv(t, shared.farm)
			admin := e.cluster.Config()
			run := &farmRun{farmEnv: e, random: rand.New(rand.NewPCG(uint64(seed), 0))}
			llamas := farmv1alpha.Resource("llamas").WithVersion("v1alpha")
			e.eventually(func() string { // the kind was installed a moment ago
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
					e.Logf("what was done:\n%s\nRun the same operations again:\n  %s=%d go test ./pkg/testing/integration -count=1 -run '^TestFarmRandomOperations$'",
						strings.Join(run.done, "\n"), seedVariable, seed)
				}
			})
			for range farmOperations {
				run.do()
				if t.Failed() {
					return // what comes after follows from it
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

// do one operation everywhere, and compare.
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
			r.Errorf("%s: %s answer otherwise than %s: %v\n%s", o, p.name, r.pastures[0].name, err, diff)
		}
	}
}

// compareEvents of all that was done.
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
	for selector, told := range r.pastures[0].watches {
		if len(told.lines) == 0 {
			r.Errorf("a watch of %s tells nothing: nothing is tested", selector)
		}
		for _, p := range r.pastures[1:] {
			if diff := gocmp.Diff(told.lines, p.watches[selector].lines); diff != "" {
				r.Errorf("a watch of %s tells otherwise of %s (-%s +%s):\n%s", selector, p.name, r.pastures[0].name, p.name, diff)
			}
		}
	}
}
