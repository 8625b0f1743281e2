// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// trouble takes away something that the engine needs, and returns what brings it back. The engine is killed before that, or in between.
type trouble func() (mend func())

// partsOf returns the type of attachments, which is that of one test alone.
func partsOf(e *engineEnv) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: e.name + ".example.com", Version: "v1", Resource: "parts"}
}

// makeInvalid edits the CompositeController and the DecoratorController to something that cannot be served.
func (w *chaosWorld) makeInvalid() (mend func()) {
	w.Helper()
	forms := map[string][]string{
		composite: {
			"{parentResource: {resource: ''}}", "{parentResource: {apiVersion: a/b/c}}", "{childResources: [{apiVersion: v1, resource: nosuch}]}", "{hooks: null}",
		},
		decorator: {
			"{resources: []}", "{resources: [{apiVersion: a/b/c, resource: widgets}]}", "{attachments: [{apiVersion: v1, resource: nosuch}]}", "{hooks: null}",
		},
	}
	for _, kind := range []string{composite, decorator} {
		form := forms[kind][w.random.IntN(len(forms[kind]))]
		w.change(kind, w.name, "{spec: "+form+"}")
		w.done["make a spec invalid: "+form]++
	}
	return func() {
		for kind, spec := range w.specs() {
			valid, err := json.Marshal(tree{"spec": spec})
			if err != nil {
				w.Fatal(err)
			}
			w.change(kind, w.name, string(valid))
		}
	}
}

// roleOfParts is the name of the ClusterRole with the right to attachments.
func (w *chaosWorld) roleOfParts() string { return w.namespace + "-parts" }

// giveRight gives the engine the right to attachments.
func (w *chaosWorld) giveRight() {
	w.Helper()
	rules := rightsOnChildren(partsOf(w.engineEnv).Group, partsOf(w.engineEnv).Resource)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: w.roleOfParts(), Labels: map[string]string{"millwright.dev/aggregate-to-engine": "true"}}, Rules: rules,
	}
	if _, err := w.kube.RbacV1().ClusterRoles().Create(w.Context(), role, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.awaitRights(rules)
}

// takeRight takes the right to attachments away.
func (w *chaosWorld) takeRight() (mend func()) {
	w.Helper()
	of := partsOf(w.engineEnv)
	requests[engine].expectForbidden(of.GroupResource())
	if err := w.kube.RbacV1().ClusterRoles().Delete(w.Context(), w.roleOfParts(), metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.cluster.AwaitNoRight(w, engine.account(w.T, w.cluster), authorizationv1.ResourceAttributes{
		Namespace: w.namespace, Verb: "update", Group: of.Group, Resource: of.Resource,
	})
	return w.giveRight
}

// unserve lets the API server not serve attachments.
func (w *chaosWorld) unserve() (mend func()) {
	w.Helper()
	w.setServed(false)
	return func() { w.setServed(true) }
}

func (w *chaosWorld) setServed(served bool) {
	w.Helper()
	crd := w.look(definitions, partsOf(w.engineEnv).GroupResource().String())
	crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["served"] = served
	if _, err := w.at(definitions).Update(w.Context(), crd, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.awaitParts(served)
}

// awaitParts waits until attachments are served, or not.
func (w *chaosWorld) awaitParts(want bool) {
	w.Helper()
	w.eventually(func() string {
		_, err := w.at(w.part).List(w.Context(), metav1.ListOptions{})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return err.Error()
		case (err == nil) != want:
			return fmt.Sprintf("%s: %v, want them served: %t", w.part, err, want)
		}
		return ""
	})
}

// makeNamespaceAgain deletes the namespace, and with it all that users want. The engine has to let go of all parents before it is made again.
func (w *chaosWorld) makeNamespaceAgain() (mend func()) {
	w.Helper()
	w.beginDeletion(w.namespace)
	w.away = true
	clear(w.parents)
	clear(w.related)
	return func() {
		w.awaitGone("Namespace", w.namespace)
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
		if _, err := w.kube.CoreV1().Namespaces().Create(w.Context(), made, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
		w.away = false
		w.done["make the namespace again"]++
	}
}
