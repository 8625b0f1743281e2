// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/certs"
	"millwright.dev/pkg/controller"
)

// Reasons of events.
const (
	reasonAuthorityCreated = "AuthorityCreated"
	reasonAuthorityDropped = "AuthorityDropped"
	reasonIssued           = "CertificateIssued"
	reasonInjected         = "CABundleInjected"
)

// reportSteps records the steps that were done by writing this Secret. Steps hold no secrets.
func (c *Controller) reportSteps(ctx context.Context, written *corev1.Secret, state certs.State, steps []certs.Step) {
	reference := referenceTo(written)
	for _, step := range steps {
		klog.FromContext(ctx).Info("Rotated", "secret", klog.KObj(written), "step", step)
		switch step := step.(type) {
		case certs.CreateAuthority:
			c.recorder.Eventf(reference, corev1.EventTypeNormal, reasonAuthorityCreated, "Created a certificate authority: %s", step.Reason)
		case certs.IssueServing:
			until := state.Serving.Certificate.NotAfter.UTC().Format(time.RFC3339)
			c.recorder.Eventf(reference, corev1.EventTypeNormal, reasonIssued, "Issued a certificate for Service %s, valid until %s: %s", c.service, until, step.Reason)
		case certs.DropAuthority:
			c.recorder.Event(reference, corev1.EventTypeNormal, reasonAuthorityDropped, "A certificate authority is not trusted any more: all that it has signed has expired")
		}
	}
}

// reportConflict reports once that the Secret is foreign. A change of it causes a sync, so nothing is retried.
func (c *Controller) reportConflict(foreign *corev1.Secret, err error) error {
	expiration.Set(0)
	if c.conflict != foreign.UID {
		c.recorder.Event(referenceTo(foreign), corev1.EventTypeWarning, controller.ReasonResourceExists, err.Error())
	}
	c.conflict = foreign.UID
	return controller.Permanent(err)
}

// referenceTo returns a reference to a Secret, without its content.
func referenceTo(object *corev1.Secret) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
	}
}
