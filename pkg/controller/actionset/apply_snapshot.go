// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// outdatedDefinition is the error if the API server drops the snapshot from a status.
const outdatedDefinition = "the CustomResourceDefinition actionsets." + v1alpha1.GroupName + " is of another release: it drops status.snapshot, without which nothing is " +
	"executed: kubectl apply --server-side --force-conflicts -f manifests/00-crds"

// createSnapshot creates the Secret with the snapshot of the run. Its error is errAwaitsTurn if the run needs a turn, with which the whole start begins again.
func (s *syncer) createSnapshot(ctx context.Context, r *snapshot) error {
	if err := s.takeTurnToRun(r); err != nil {
		return err
	}
	secret, err := newSnapshotSecret(s.o.set, r)
	if err != nil {
		return err
	}
	phase.AddReads(ctx, readsOfWrite, readsOfWrite*len(secret.Data[snapshotKey]))
	created, err := s.KubeClient.CoreV1().Secrets(s.key.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		s.o.takenOver = true
		return s.adoptSnapshot(ctx, r, secret)
	}
	if err != nil {
		return s.snapshotRefused(secret, err)
	}
	s.keepSnapshot(ctx, r, created)
	s.memory.snapshotCreated, s.o.takenOver = true, false
	return nil
}

// adoptSnapshot adopts the Secret that exists under the name of the snapshot if it has the same content: then another process of ours, or a
// request whose answer was lost, has created it for this start. Any other Secret is not used: a user who may edit Secrets may have made it. If it
// is marked as made for this ActionSet, it is replaced, because nothing was started from it; otherwise it is not changed.
func (s *syncer) adoptSnapshot(ctx context.Context, r *snapshot, secret *corev1.Secret) error {
	secrets := s.KubeClient.CoreV1().Secrets(s.key.Namespace)
	found, err := secrets.Get(ctx, secret.Name, getOptions)
	if err != nil {
		return fmt.Errorf("reading Secret %s/%s, which exists before the snapshot is created: %w", s.key.Namespace, secret.Name, err)
	}
	if !isSnapshotOf(s.o.set, found) {
		s.o.snapshotDamage = fmt.Sprintf("Secret %s, which is to hold the snapshot of the run, exists and was not made for it: delete that Secret, and create another ActionSet",
			secret.Name)
		return controller.ErrDecideAgain
	}
	if equal := equalSnapshot(s.o.set, r, found, s.o.now); equal != nil {
		s.keepSnapshot(ctx, equal, found)
		return controller.ErrDecideAgain
	}
	// Another process may have started the run meanwhile.
	live, err := s.Client.CrV1alpha1().ActionSets(s.key.Namespace).Get(ctx, s.key.Name, getOptions)
	if err != nil {
		return fmt.Errorf("reading ActionSet %s: %w", s.key, err)
	}
	if live.UID != s.o.set.UID || live.ResourceVersion != s.o.set.ResourceVersion {
		return apierrors.NewConflict(v1alpha1.Resource("actionsets"), s.key.Name, errors.New("it has changed while its snapshot was created"))
	}
	klog.FromContext(ctx).Info("Replacing a Secret that has the name of the snapshot and different content", "secret", secret.Name, "uid", found.UID)
	err = secrets.Delete(ctx, found.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Secret %s/%s, which is not the snapshot: %w", s.key.Namespace, secret.Name, err)
	}
	created, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return s.snapshotRefused(secret, err)
	}
	s.keepSnapshot(ctx, r, created)
	return nil
}

// snapshotRefused records that the API server has refused to create the Secret with the snapshot. A reason that only users can correct is
// shown in the status.
func (s *syncer) snapshotRefused(secret *corev1.Secret, err error) error {
	err = fmt.Errorf("creating Secret %s/%s with the snapshot: %w", s.key.Namespace, secret.Name, err)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		s.o.namespaceTerminating = true
		return controller.ErrDecideAgain
	case apierrors.IsForbidden(err), // a right is missing, or a quota is exceeded
		apierrors.IsAlreadyExists(err): // another client creates it again after each deletion
		s.o.snapshotRefusal = errors.Unwrap(err).Error()
		s.problem = err
		return controller.ErrDecideAgain
	}
	return err
}

// keepSnapshot remembers the snapshot and its Secret.
func (s *syncer) keepSnapshot(ctx context.Context, r *snapshot, secret *corev1.Secret) {
	s.o.snapshot, s.o.snapshotID = r, snapshotIDOf(secret)
	s.memory.snapshot, s.memory.snapshotID, s.memory.snapshotBytes = s.o.snapshot, s.o.snapshotID, len(secret.Data[snapshotKey])
	for i := range r.Actions {
		s.memory.snapshotBytes += heldBy(ctx, r.Actions[i].Subject.Object)
	}
}

// withUID adds the UID of the Secret to a status that starts a run. The UID was not known when the plan was made.
func (s *syncer) withUID(status v1alpha1.ActionSetStatus) *v1alpha1.ActionSetStatus {
	if status.Snapshot != nil && status.Snapshot.UID == "" && s.o.snapshotID != nil {
		status.Snapshot = s.o.snapshotID.DeepCopy()
	}
	return &status
}

func (s *syncer) deleteSnapshot(ctx context.Context) error {
	name, options := snapshotName(s.o.set), metav1.DeleteOptions{}
	if s.o.snapshotID != nil {
		options.Preconditions = metav1.NewUIDPreconditions(string(s.o.snapshotID.UID))
	}
	err := s.KubeClient.CoreV1().Secrets(s.key.Namespace).Delete(ctx, name, options)
	// A conflict means that another Secret has the name.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Secret %s/%s with the snapshot: %w", s.key.Namespace, name, err)
	}
	s.o.snapshot = nil
	cleanUp := cleanUpMemory{gaveUp: s.memory.cleanUp.gaveUp, sweepAgain: s.memory.cleanUp.sweepAgain}
	*s.memory = memory{cleanedUp: true, cleanUp: cleanUp, recordedEvent: s.memory.recordedEvent, lastName: s.memory.lastName}
	return nil
}
