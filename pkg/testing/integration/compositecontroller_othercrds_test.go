// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// metacontrollersCRDs are the CustomResourceDefinitions of Metacontroller.
const metacontrollersCRDs = "testdata/metacontroller/crds.yaml"

// applyEngineCRDs applies the CustomResourceDefinitions of the engine, as the guide describes.
func (e *engineEnv) applyEngineCRDs() {
	e.Helper()
	args := []string{"apply", "--server-side", "--force-conflicts"}
	for _, plural := range []string{"compositecontrollers", "controllerrevisions", "decoratorcontrollers"} {
		args = append(args, "-f", "../../../manifests/00-crds/metacontroller.k8s.io_"+plural+".yaml")
	}
	e.cluster.Kubectl(e, args...)
}

// replaceByMetacontrollers replaces the CustomResourceDefinitions of the engine.
func (e *engineEnv) replaceByMetacontrollers() {
	e.Helper()
	content, err := os.ReadFile(metacontrollersCRDs)
	if err != nil {
		e.Fatal(err)
	}
	for reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 1<<10); ; {
		definition := &unstructured.Unstructured{}
		if err := reader.Decode(definition); err == io.EOF {
			return
		} else if err != nil {
			e.Fatal(err)
		}
		e.eventually(func() string {
			definition.SetResourceVersion(e.look(definitions, definition.GetName()).GetResourceVersion())
			if _, err := e.at(definitions).Update(e.Context(), definition, metav1.UpdateOptions{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}

// awaitReadiness waits until readyz answers this for a controller.
func (o *operator) awaitReadiness(controller, want string) {
	o.e.Helper()
	o.e.eventually(func() string {
		o.mustRun()
		if got := readiness(o.address(), controller); !strings.Contains(got, want) {
			return fmt.Sprintf("readyz of %s: got %s, want %q", controller, got, want)
		}
		return ""
	})
}

// statusWrites counts how often the status of an object was written.
func statusWrites(journal *faultproxy.Journal, name string) (count int) {
	for _, entry := range journal.Entries() {
		if entry.Verb == "update" && entry.Subresource == "status" && entry.Name == name {
			count++
		}
	}
	return count
}

// TestCompositeMetacontrollersCRDs: the CustomResourceDefinitions of Metacontroller are installed, then ours, and once more each.
func TestCompositeMetacontrollersCRDs(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Start(t, append([]testcluster.Option{testcluster.WithCRDs("pkg/testing/integration/testdata/compositecontroller")}, rightsOptions...)...)
	cluster.Kubectl(t, "create", "--field-manager=helm", "-f", metacontrollersCRDs)
	e := decoratorEnv{newEngineEnvIn(t, cluster)}
	e.grantEngine(slices.Concat(rightsOnParents("test.example.com", "widgets"), rightsOnTargets("test.example.com", "widgets"),
		rightsOnChildren("", "configmaps"))...)
	e.hook.Answers(func(call *hookCall) any {
		if call.Object != nil {
			return tree{"labels": tree{"decorated": "yes"}, "finalized": true}
		}
		return clearsAway(call)
	})
	journal := &faultproxy.Journal{}
	o := startProcessOf(engine, e.env, "engine", journal)
	for _, controller := range []string{"compositecontroller", "decoratorcontroller"} {
		o.awaitReadiness(controller, "ok")
	}
	selecting := func(spec, name string) string {
		return strings.Replace(spec, "resource: widgets", "resource: widgets, labelSelector: {matchLabels: {use: "+name+"}}", 1)
	}
	for _, name := range []string{"plain", "finalized", "decorated"} {
		e.parent(name, "{metadata: {labels: {use: "+name+"}}}")
	}
	cc := e.serves(selecting(finalized, "finalized"))
	dc := e.decorates(alsoFinalized(selecting("resources: [{apiVersion: test.example.com/v1, resource: widgets}]\nhooks: {sync: {webhook: {url: HOOK/sync}}}\n", "decorated")))
	plain := e.servesToo(selecting(configMaps, "plain"))
	checkUnrecorded := func() {
		t.Helper()
		o.awaitReadiness("compositecontroller", "CompositeControllers "+e.name+": the CustomResourceDefinition compositecontrollers.metacontroller.k8s.io")
		o.awaitReadiness("decoratorcontroller", "DecoratorControllers "+e.name+": the CustomResourceDefinition decoratorcontrollers.metacontroller.k8s.io")
		e.awaitChild(widget, "finalized", finalizers())
		e.awaitChild(widget, "decorated", finalizers(), has(nil, "metadata", "labels", "decorated"))
	}

	// What needs no record works.
	child := e.awaitChild("ConfigMap", "plain")
	e.awaitEventOn(e.look(composite, plain), v1alpha1.ReasonStatusNotStored, "served without conditions")
	e.awaitEventOn(cc, "CreateError", "the API server does not store status.finalizedParents")
	e.awaitEventOn(dc, "CreateError", "the API server does not store status.finalizedResources")
	checkUnrecorded()
	for kind, name := range map[string]string{composite: e.name, decorator: e.name} {
		if complaint := finalizers()(e.look(kind, name)); complaint != "" {
			t.Error(complaint)
		}
	}
	for _, sample := range []string{`CompositeController",state="StatusNotStored"} 1`, `CompositeController",state="Ready"} 1`, `DecoratorController",state="StatusNotStored"} 1`} {
		e.eventually(func() string {
			if !strings.Contains(o.get("/metrics"), `millwright_objects{kind="`+sample) {
				return "the metrics have no " + sample
			}
			return ""
		})
	}

	// A status is sent once in each process, whatever the hook answers.
	e.hook.Says(tree{"children": "none"})
	e.change(widget, "plain", "{spec: {edited: once}}")
	e.awaitEventOn(e.look(widget, "plain"), "SyncError", "")
	e.hook.Answers(clearsAway)
	e.remove("ConfigMap", "plain")
	e.awaitChild("ConfigMap", "plain", isAnother(child))
	checkWrites := func(starts int) {
		t.Helper()
		// The CompositeController and the DecoratorController with a finalize hook have the same name: a record and a condition each.
		for name, want := range map[string]int{plain: starts, e.name: 4 * starts} {
			if got := statusWrites(journal, name); got != want {
				t.Errorf("after %d starts the status of %s was written %d times, want %d", starts, name, got, want)
			}
		}
	}
	checkWrites(1)
	if lines := strings.Count(o.log.String(), "Not started: the record of finalizers is not stored"); lines != 2 {
		t.Errorf("the log has %d lines about records, want one for each of two controllers", lines)
	}
	o.terminate()
	child = e.look("ConfigMap", "plain")
	e.remove("ConfigMap", "plain")
	o.restart()
	e.awaitChild("ConfigMap", "plain", isAnother(child))
	checkUnrecorded()
	e.eventually(func() string {
		if statusWrites(journal, plain) < 2 || statusWrites(journal, e.name) < 8 {
			return "not all statuses were sent after the restart"
		}
		return ""
	})
	checkWrites(2)

	e.hook.Answers(func(call *hookCall) any {
		if call.Object != nil {
			return tree{"labels": tree{"decorated": "yes"}, "finalized": true}
		}
		return clearsAway(call)
	})
	e.applyEngineCRDs()
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitReasonOf(plain, v1alpha1.ReasonServing)
	e.awaitDecorator(v1alpha1.ReasonServing)
	e.awaitChild(widget, "finalized", finalizers(e.finalizer()))
	e.awaitChild(widget, "decorated", finalizers(e.mark()), has("yes", "metadata", "labels", "decorated"))
	o.awaitReadiness("compositecontroller", "ok")
	o.awaitReadiness("decoratorcontroller", "ok")

	// The other ones are installed again while the finalizers are there.
	e.replaceByMetacontrollers()
	o.awaitReadiness("compositecontroller", "not started")
	o.awaitReadiness("decoratorcontroller", "not started")
	e.parent("late", "{metadata: {labels: {use: finalized}}}")
	e.parent("meanwhile", "{metadata: {labels: {use: plain}}}")
	e.awaitChild("ConfigMap", "meanwhile")
	if complaint := finalizers()(e.look(widget, "late")); complaint != "" {
		t.Error(complaint)
	}
	e.applyEngineCRDs()
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitChild(widget, "late", finalizers(e.finalizer()))
	e.awaitDecorator(v1alpha1.ReasonServing)
	for _, name := range []string{"finalized", "late", "decorated"} {
		e.remove(widget, name)
		e.awaitGone(widget, name)
	}
	for kind, name := range map[string]string{composite: e.name, decorator: e.name} {
		e.remove(kind, name)
		e.awaitGone(kind, name)
	}
	e.remove(composite, plain)
	e.awaitGone(composite, plain)
	o.terminate()
}

// isAnother checks that an object was created after another one of its name.
func isAnother(before *unstructured.Unstructured) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		if o.GetUID() == before.GetUID() {
			return o.GetName() + " is still the same object"
		}
		return ""
	}
}
