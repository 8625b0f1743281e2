// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// reconciler is one sync of one ImmortalContainer.
type reconciler struct {
	*Controller
	key      cache.ObjectName
	observed *observed
}

// Decide implements controller.Reconciler.
func (r *reconciler) Decide() controller.Plan { return decide(*r.observed) }

// Apply implements controller.Reconciler.
func (r *reconciler) Apply(ctx context.Context, step controller.Step) error {
	switch s := step.(type) {
	case writeStatus:
		return r.writeStatus(ctx, s.status)
	case createPod:
		return r.createPod(ctx, s)
	case deletePod:
		return r.deletePod(ctx, s.uid)
	case adoptPod:
		return r.adoptPod(ctx)
	case labelPod:
		return r.labelPod(ctx, s.uid)
	case controller.RecordEvent:
		if s.Reason == controller.ReasonResourceExists {
			conflictsMet.Inc()
		}
		r.recorder.Event(r.observed.container, s.Type, s.Reason, s.Message)
		return nil
	default:
		return fmt.Errorf("unknown step %T", s)
	}
}

// writeStatus writes the status with the resourceVersion that was decided from as precondition, and replaces what is observed by the answer.
func (r *reconciler) writeStatus(ctx context.Context, status v1alpha1.ImmortalContainerStatus) error {
	client := r.client.ImmortalcontainersV1alpha1().ImmortalContainers(r.key.Namespace)
	updated, err := client.UpdateStatus(ctx, withStatusOnly(r.observed.container, status), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of ImmortalContainer %s: %w", r.key, err)
	}
	r.consistency.WroteAt(r.key, r.containerStore, updated.ResourceVersion)
	r.observed.container = updated
	return nil
}

// createPod creates the Pod of a reserved start. If its name is taken, the live Pod is read and the sync decides again.
func (r *reconciler) createPod(ctx context.Context, s createPod) error {
	container, err := r.wholeContainer(ctx)
	if err != nil {
		return err
	}
	pod, err := r.kubeClient.CoreV1().Pods(r.key.Namespace).Create(ctx, newPod(container, s.start), metav1.CreateOptions{})
	switch {
	case err == nil:
		podsStarted.WithLabelValues(string(s.cause)).Inc()
		r.consistency.WroteAt(r.key, r.podStore, pod.ResourceVersion)
		r.memories.saw(r.key, pod)
		if s.cause == causeDeleted {
			r.memories.recreated(r.key, pod, time.Now(), s.afterPause)
		}
		return nil
	case apierrors.IsAlreadyExists(err) && r.observed.live:
		return fmt.Errorf("creating Pod %s: it was not found, but exists; trying again", klog.KRef(r.key.Namespace, podName(r.key.Name)))
	case apierrors.IsAlreadyExists(err):
		return cmp.Or(r.Answer(ctx, readPod{}), controller.ErrDecideAgain)
	case controller.StopIfTerminating(err) == controller.ErrStop:
		return controller.ErrStop
	}
	return r.reportRejection(ctx, fmt.Errorf("creating Pod %s: %w", klog.KRef(r.key.Namespace, podName(r.key.Name)), err))
}

// wholeContainer returns the ImmortalContainer that was decided for, with all of its spec. If the cache has only its header, it is read; if it was
// edited meanwhile, the error is an optimistic-lock conflict.
func (r *reconciler) wholeContainer(ctx context.Context) (*v1alpha1.ImmortalContainer, error) {
	if !isHeader(r.observed.container) {
		return r.observed.container, nil
	}
	live, err := r.liveContainer(ctx)
	if err != nil {
		return nil, err
	}
	if live.Generation != r.observed.container.Generation {
		return nil, apierrors.NewConflict(v1alpha1.Resource("immortalcontainers"), r.key.Name, errors.New("its spec has changed since the start of its Pod was decided"))
	}
	return live, nil
}

// reportRejection shows in the status and an event why the API server has rejected the Pod. Transient errors are only retried.
func (r *reconciler) reportRejection(ctx context.Context, err error) error {
	rejection := controller.RejectionOf(err)
	if rejection == nil {
		return err
	}
	r.observed.now = time.Now()
	if rejection.IsInvalid() {
		err = controller.Invalid(err)
	}
	for _, step := range afterRejection(*r.observed, rejection.Reason, rejection.Message).Steps {
		if statusErr := r.Apply(ctx, step); statusErr != nil {
			return errors.Join(err, statusErr)
		}
	}
	return err
}

func (r *reconciler) deletePod(ctx context.Context, uid types.UID) error {
	pod := r.observed.pod
	err := r.kubeClient.CoreV1().Pods(r.key.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(uid)}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Pod %s: %w", klog.KObj(pod), err)
	}
	r.memories.deleting(r.key, pod)
	return nil
}

// adoptPod makes the ImmortalContainer the controller of this version of the Pod. The live ImmortalContainer is read first: if the cache is stale,
// the ImmortalContainer may be being deleted with --cascade=orphan, and an adopted Pod would be deleted with it.
func (r *reconciler) adoptPod(ctx context.Context) error {
	if _, err := r.liveContainer(ctx); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             r.observed.pod.UID,
		"resourceVersion": r.observed.pod.ResourceVersion,
		"labels":          ownLabels(r.observed.container),
		"ownerReferences": adoptedOwners(r.observed.container, r.observed.pod),
	}})
	if err != nil {
		return err
	}
	pod, err := r.kubeClient.CoreV1().Pods(r.key.Namespace).Patch(ctx, r.observed.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("adopting Pod %s: %w", klog.KObj(r.observed.pod), err)
	}
	podsAdopted.Inc()
	r.consistency.WroteAt(r.key, r.podStore, pod.ResourceVersion)
	r.memories.saw(r.key, pod)
	return nil
}

// labelPod restores the labels by which we watch. The UID in the patch makes it fail for another Pod of that name.
func (r *reconciler) labelPod(ctx context.Context, uid types.UID) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "labels": ownLabels(r.observed.container)}})
	if err != nil {
		return err
	}
	pod, err := r.kubeClient.CoreV1().Pods(r.key.Namespace).Patch(ctx, r.observed.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("labelling Pod %s: %w", klog.KObj(r.observed.pod), err)
	}
	r.consistency.WroteAt(r.key, r.podStore, pod.ResourceVersion)
	return nil
}
