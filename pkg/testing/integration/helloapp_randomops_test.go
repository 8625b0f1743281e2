// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// Random operations of users and other clients on HelloApps and objects of their names.

// createOp creates a HelloApp that does not exist, or scales one if all exist.
func (w *appWorld) createOp(random *rand.Rand) string {
	missing := slices.DeleteFunc(slices.Clone(appNames), func(name string) bool { return w.apps[name] != nil })
	if len(missing) == 0 {
		return w.scale(draw(random, appNames...), random)
	}
	name := draw(random, missing...)
	return w.makeApp(name, random)
}

func (w *appWorld) makeApp(name string, random *rand.Rand) string {
	app := helloApp(name, random.Int32N(4), func(s *v1.HelloAppSpec) {
		s.Image, s.Port = draw(random, "nginx:1", "nginx:2", "nginx:3", ""), draw[int32](random, 0, 80, 81)
	})
	created, err := w.client.AppsV1().HelloApps(w.namespace).Create(w.Context(), app, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return "create " + name + ": the deleted one still exists"
	case err != nil:
		w.Fatal(err)
	}
	w.apps[name] = created.Spec.DeepCopy()
	return fmt.Sprintf("create %s with size %d, image %q, port %d", name, app.Spec.Size, app.Spec.Image, app.Spec.Port)
}

func (w *appWorld) scale(name string, random *rand.Rand) string {
	size := random.Int32N(5)
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, size)
	_, err := w.client.AppsV1().RESTClient().Patch(types.MergePatchType).Namespace(w.namespace).
		Resource("helloapps").Name(name).SubResource("scale").Body(patch).DoRaw(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.apps[name].Size = size
	return fmt.Sprintf("scale %s to %d", name, size)
}

// edit changes one field of the spec. It leaves out a zero value, as users do.
func (w *appWorld) edit(name, field string, value any) string {
	if value == "" || value == int32(0) {
		value = nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{field: value}})
	if err != nil {
		w.Fatal(err)
	}
	w.patchApp(name, string(patch))
	return fmt.Sprintf("edit %s: %s", name, patch)
}

func (w *appWorld) deleteOp(name string, random *rand.Rand) string {
	propagation := draw(random,
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, metav1.DeletePropagationOrphan)
	w.deleteApp(name, propagation)
	return fmt.Sprintf("delete %s: %s", name, propagation)
}

func (w *appWorld) deleteApp(name string, propagation metav1.DeletionPropagation) {
	err := w.client.AppsV1().HelloApps(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{PropagationPolicy: &propagation})
	if err != nil {
		w.Fatal(err)
	}
	delete(w.apps, name)
}

// driftOp edits a Deployment or Service, if it exists and is not foreign.
func (w *appWorld) driftOp(random *rand.Rand) string {
	name := draw(random, appNames...)
	what, isTheirs, patch := "Deployment", w.theirDeployments[name], fmt.Sprintf(`{"spec":{"replicas":%d}}`, random.IntN(5))
	switch random.IntN(3) {
	case 0:
		patch = fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":"drift:1"}]}}}}`, name)
	case 1:
		what, isTheirs, patch = "Service", w.theirServices[name], `{"spec":{"selector":{"another":"app"}}}`
	}
	if isTheirs {
		return "edit nothing: " + what + " " + name + " is foreign"
	}
	var err error
	options := metav1.PatchOptions{FieldManager: otherManager}
	if what == "Deployment" {
		_, err = w.kube.AppsV1().Deployments(w.namespace).Patch(w.Context(), name, types.StrategicMergePatchType, []byte(patch), options)
	} else {
		_, err = w.kube.CoreV1().Services(w.namespace).Patch(w.Context(), name, types.StrategicMergePatchType, []byte(patch), options)
	}
	return w.outcome(fmt.Sprintf("edit %s %s: %s", what, name, patch), err)
}

// deleteChildOp deletes a Deployment or Service, owned or foreign.
func (w *appWorld) deleteChildOp(random *rand.Rand) string {
	name := draw(random, appNames...)
	if random.IntN(2) == 0 {
		return w.deleteDeployment(name)
	}
	return w.deleteService(name)
}

func (w *appWorld) deleteDeployment(name string) string {
	delete(w.theirDeployments, name)
	return w.outcome("delete Deployment "+name, w.kube.AppsV1().Deployments(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

func (w *appWorld) deleteService(name string) string {
	delete(w.theirServices, name)
	return w.outcome("delete Service "+name, w.kube.CoreV1().Services(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// foreignOp deletes a Deployment or Service. Half of the time another client then creates a foreign one of the same name, which may be
// before the controller creates its own.
func (w *appWorld) foreignOp(random *rand.Rand) string {
	name := draw(random, appNames...)
	theirs := w.foreignMeta(name, random)
	if random.IntN(3) > 0 { // Deployments matter more
		if done := w.deleteDeployment(name); random.IntN(2) == 0 {
			return done
		}
		deployment := newDeployment(name, map[string]string{"app": "theirs"}, "theirs")
		deployment.ObjectMeta = theirs
		_, err := w.kube.AppsV1().Deployments(w.namespace).Create(w.Context(), deployment, metav1.CreateOptions{})
		if err == nil {
			w.theirDeployments[name] = true
		}
		return w.outcome("create foreign Deployment "+name, err)
	}
	if done := w.deleteService(name); random.IntN(2) == 0 {
		return done
	}
	_, err := w.kube.CoreV1().Services(w.namespace).Create(w.Context(), &corev1.Service{
		ObjectMeta: theirs,
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	if err == nil {
		w.theirServices[name] = true
	}
	return w.outcome("create foreign Service "+name, err)
}

// foreignMeta returns the metadata of a foreign object. Most have our label and another controller: the HelloApp controller sees their
// deletion immediately. It sees that of the others within ten seconds, so they are few.
func (w *appWorld) foreignMeta(name string, random *rand.Rand) metav1.ObjectMeta {
	object := metav1.ObjectMeta{Name: name, Labels: map[string]string{theirLabel: "true"}}
	if random.IntN(8) > 0 {
		object.Labels[controller.LabelManagedBy] = controller.ManagedBy
		object.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	}
	return object
}
