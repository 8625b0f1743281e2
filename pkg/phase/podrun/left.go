// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/phase"
)

// Cancel implements phase.Function. It deletes the Pod of the phase that has the name: the recorded one, or one that a late request has
// created.
func (f *Function) Cancel(ctx context.Context, call phase.Call) error {
	first := f.runs.stop(call.ID)
	intent, err := ReadIntent(call)
	if err != nil || intent.Pod == "" {
		return err
	}
	if intent.UID != "" {
		err = f.runs.delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: intent.Namespace, Name: intent.Pod, UID: intent.UID}})
	}
	if intent.UID == "" || apierrors.IsConflict(err) {
		var found *corev1.Pod
		if found, err = f.find(ctx, call, intent); err == nil {
			f.runs.watches.use(intent.Namespace, call.ID.Namespace) // it shows a Pod that a late request creates
		}
		if err == nil && found != nil && intent.isOf(found, call.ID) {
			err = f.runs.delete(ctx, found)
		}
	}
	if err == nil && first {
		f.runs.wake(call.ID) // without a watch nothing else reports that the Pod is gone
	}
	return err
}

// Left implements phase.Leaver.
func (f *Function) Left(ctx context.Context, call phase.Call) (bool, error) {
	if f.seen(call) {
		return true, nil
	}
	intent, err := ReadIntent(call)
	if err != nil || intent.Pod == "" { // the intent of another function, or none yet
		return false, err
	}
	pod, err := f.find(ctx, call, intent)
	return pod != nil && intent.isOf(pod, call.ID), err
}

// find is read for a phase that has ended. If its Pod could not be created for lack of a right, it cannot be read either, and there is none.
func (f *Function) find(ctx context.Context, call phase.Call, intent Intent) (*corev1.Pod, error) {
	pod, err := f.read(ctx, intent)
	if err != nil && intent.UID == "" && f.runs.wasRefused(call.ID) {
		return nil, nil
	}
	return pod, err
}

// seen reports whether a cache shows the Pod. It sends no request, and starts no watch.
func (f *Function) seen(call phase.Call) bool {
	intent, _ := ReadIntent(call) // without one the labels have to do
	return len(f.runs.watches.seen(func(pod *corev1.Pod) bool { return intent.isOf(pod, call.ID) })) > 0
}

// Found returns the phases of an ActionSet of which the caches have a Pod.
func (r *Runs) Found(namespace, name string) (ids []phase.ID) {
	r.watches.seen(func(pod *corev1.Pod) bool {
		id, ok := idOf(pod)
		if ok = ok && id.Namespace == namespace && id.Name == name && !r.isDeleted(pod.UID); ok {
			ids = append(ids, id)
		}
		return ok
	})
	return ids
}

// Remove deletes the Pods of a phase that the caches have. A Pod that is gone, or was replaced, is no error: the cache may be stale.
func (r *Runs) Remove(ctx context.Context, id phase.ID) error {
	r.stop(id)
	var errs []error
	for _, pod := range r.watches.seen(func(pod *corev1.Pod) bool { return hasLabelsOf(pod, id) && !r.isDeleted(pod.UID) }) {
		if err := r.delete(ctx, pod); !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// delete deletes the Pod with this UID without a grace period. It returns a conflict if another Pod has its name.
func (r *Runs) delete(ctx context.Context, pod *corev1.Pod) error {
	err := r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err == nil || apierrors.IsNotFound(err) || r.refusedAsGone(ctx, pod.Namespace, err) {
		r.noteDeleted(pod.UID)
		return nil
	}
	return fmt.Errorf("deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// refusedAsGone reports whether the API server has refused a request because the rights in a namespace are gone together with it. If the namespace cannot be
// read, it may not be gone.
func (r *Runs) refusedAsGone(ctx context.Context, namespace string, err error) bool {
	if !apierrors.IsForbidden(err) {
		return false
	}
	gone, err := phase.IsNamespaceGone(ctx, r.client, namespace)
	return gone && err == nil
}
