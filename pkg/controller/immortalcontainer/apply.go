// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

var (
	// errLookLive asks to decide anew from the live Pod.
	errLookLive = errors.New("the cache does not tell enough about the Pod")
	// errOwnerGoes ends a sync in peace: the ImmortalContainer that was decided for is gone, or going.
	errOwnerGoes = errors.New("the ImmortalContainer is gone, or going")
	// errNamespaceGoes ends a sync in peace: nothing can be created, and all will be deleted.
	errNamespaceGoes = errors.New("the namespace is being terminated")
)

// apply does the steps of the plan in order and stops at the first that fails.
func (c *Controller) apply(ctx context.Context, key cache.ObjectName, o *observed, p plan) (time.Duration, error) {
	logger := klog.FromContext(ctx)
	for _, s := range p.steps {
		logger.V(4).Info("Applying", "step", s)
		switch err := c.applyStep(ctx, key, o, s); {
		case errors.Is(err, errNamespaceGoes), errors.Is(err, errOwnerGoes):
			return 0, nil
		case err != nil:
			return 0, err
		}
	}
	return p.requeueAfter, nil
}

func (c *Controller) applyStep(ctx context.Context, key cache.ObjectName, o *observed, s step) error {
	switch s := s.(type) {
	case lookLive:
		return errLookLive
	case writeStatus:
		return c.writeStatus(ctx, key, o, s.status)
	case createPod:
		return c.createPod(ctx, key, o, s)
	case deletePod:
		return c.deletePod(ctx, key, o.pod, s.uid)
	case adoptPod:
		return c.adoptPod(ctx, key, o)
	case labelPod:
		return c.labelPod(ctx, key, o, s.uid)
	case recordEvent:
		if s.reason == controller.ReasonResourceExists {
			conflictsMet.Inc()
		}
		c.recorder.Event(o.container, s.eventType, s.reason, s.message)
		return nil
	default:
		return fmt.Errorf("unknown step %T", s)
	}
}

// writeStatus writes the status against the version that was decided from, and goes on from the answer.
func (c *Controller) writeStatus(ctx context.Context, key cache.ObjectName, o *observed, status v1alpha1.ImmortalContainerStatus) error {
	updated, err := c.client.ImmortalcontainersV1alpha1().ImmortalContainers(key.Namespace).UpdateStatus(ctx, withStatusOnly(o.container, status), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of ImmortalContainer %s: %w", key, err)
	}
	c.consistency.WroteAt(key, c.containerStore, updated.ResourceVersion)
	o.container = updated
	return nil
}

// createPod creates the Pod of a reserved start. Where its name is taken, the live Pod tells by whom.
func (c *Controller) createPod(ctx context.Context, key cache.ObjectName, o *observed, s createPod) error {
	container, err := c.wholeContainer(ctx, key, o)
	if err != nil {
		return err
	}
	pod, err := c.kubeClient.CoreV1().Pods(key.Namespace).Create(ctx, newPod(container, s.start), metav1.CreateOptions{})
	switch {
	case err == nil:
		podsStarted.WithLabelValues(string(s.cause)).Inc()
		c.consistency.WroteAt(key, c.podStore, pod.ResourceVersion)
		c.memories.saw(key, pod)
		if s.cause == causeDeleted {
			c.memories.recreated(key, pod, time.Now(), s.afterPause)
		}
		return nil
	case apierrors.IsAlreadyExists(err):
		return errLookLive
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errNamespaceGoes
	}
	return c.reportRefusal(ctx, key, o, fmt.Errorf("creating Pod %s: %w", klog.KRef(key.Namespace, podName(key.Name)), err))
}

// wholeContainer is the ImmortalContainer that was decided for, with all of its spec. What the cache has only the header of is read, and
// refused as an old version where it has been edited meanwhile.
func (c *Controller) wholeContainer(ctx context.Context, key cache.ObjectName, o *observed) (*v1alpha1.ImmortalContainer, error) {
	if !isHeader(o.container) {
		return o.container, nil
	}
	live, err := c.liveContainer(ctx, key, o)
	if err != nil {
		return nil, err
	}
	if live.Generation != o.container.Generation {
		return nil, apierrors.NewConflict(v1alpha1.Resource("immortalcontainers"), key.Name, errors.New("its spec has changed since its Pod was decided on"))
	}
	return live, nil
}

// liveContainer reads the ImmortalContainer that was decided for. The error is errOwnerGoes where it is gone, or going.
func (c *Controller) liveContainer(ctx context.Context, key cache.ObjectName, o *observed) (*v1alpha1.ImmortalContainer, error) {
	live, err := c.client.ImmortalcontainersV1alpha1().ImmortalContainers(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (live.UID != o.container.UID || live.DeletionTimestamp != nil):
		return nil, errOwnerGoes
	case err != nil:
		return nil, fmt.Errorf("reading ImmortalContainer %s: %w", key, err)
	}
	return live, nil
}

// reportRefusal shows in status and event why the API server does not want the Pod. What passes by itself is only retried.
func (c *Controller) reportRefusal(ctx context.Context, key cache.ObjectName, o *observed, err error) error {
	refusal := controller.RejectionOf(err)
	if refusal == nil {
		return err
	}
	o.now = time.Now()
	if _, statusErr := c.apply(ctx, key, o, afterRefusal(*o, refusal.Reason, refusal.Message)); statusErr != nil {
		return errors.Join(err, statusErr)
	}
	if refusal.IsPermanent() {
		return controller.Permanent(err)
	}
	return err
}

func (c *Controller) deletePod(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, uid types.UID) error {
	err := c.kubeClient.CoreV1().Pods(key.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(uid)}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Pod %s: %w", klog.KObj(pod), err)
	}
	c.memories.deleting(key, pod)
	return nil
}

// adoptPod makes the ImmortalContainer the controller of this version of the Pod. The live ImmortalContainer is looked at first: a cache
// that is behind must not give the Pod to one that is being deleted without it, or it would be deleted with it.
func (c *Controller) adoptPod(ctx context.Context, key cache.ObjectName, o *observed) error {
	if _, err := c.liveContainer(ctx, key, o); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             o.pod.UID,
		"resourceVersion": o.pod.ResourceVersion,
		"labels":          ownLabels(o.container),
		"ownerReferences": adoptedOwners(o.container, o.pod),
	}})
	if err != nil {
		return err
	}
	pod, err := c.kubeClient.CoreV1().Pods(key.Namespace).Patch(ctx, o.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("adopting Pod %s: %w", klog.KObj(o.pod), err)
	}
	podsAdopted.Inc()
	c.consistency.WroteAt(key, c.podStore, pod.ResourceVersion)
	c.memories.saw(key, pod)
	return nil
}

// labelPod puts back the labels by which we watch. The UID in the patch makes it fail on any other Pod of that name.
func (c *Controller) labelPod(ctx context.Context, key cache.ObjectName, o *observed, uid types.UID) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "labels": ownLabels(o.container)}})
	if err != nil {
		return err
	}
	pod, err := c.kubeClient.CoreV1().Pods(key.Namespace).Patch(ctx, o.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("labelling Pod %s: %w", klog.KObj(o.pod), err)
	}
	c.consistency.WroteAt(key, c.podStore, pod.ResourceVersion)
	return nil
}
