// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// Reach limits where phases work. The operator has rights that are meant for its controller, not for the authors of ActionSets: in its own namespace, in the
// namespaces whose ActionSets it runs, and to remove its finalizer from any ActionSet. The policies in manifests/23-actions-policy.yaml refuse such
// writes, too, but cannot refuse to read.
type Reach struct {
	// Operator is the namespace of the operator itself; "" if it is not known. No phase works there: a Pod in that namespace could have the operator's
	// ServiceAccount, and with it the operator's rights.
	Operator string
	// Served is the namespace whose ActionSets are run; "" for those of all namespaces.
	Served string
}

// SnapshotPrefix is the beginning of the name of a Secret with the snapshot of a run.
const SnapshotPrefix = "actionset-run-"

// Refuse returns a *Failure if a phase would work in the operator's own namespace. doing is what the phase does, as in "creates a Pod".
func (r Reach) Refuse(namespace, doing string) error {
	if r.Operator == "" || namespace != r.Operator {
		return nil
	}
	return Failf("the phase %s in the namespace %s, which is the operator's own: no phase works there. "+
		"Name the namespace of the application in the arguments of the phase", doing, namespace)
}

// RefuseAccess returns a *Failure if an ActionSet in the namespace own would read or change an object of the group cr.kanister.io in another
// namespace: the operator can do that with every ActionSet, to remove its finalizer.
func (r Reach) RefuseAccess(own string, resource schema.GroupResource, namespace, name string) error {
	if resource.Group != v1alpha1.GroupVersion.Group || namespace == own {
		return nil
	}
	return Failf("%s %s/%s is in another namespace than the ActionSet: phases, conditions and subjects use objects of the group %s in that namespace only",
		resource, namespace, name, resource.Group)
}

// RefuseRead returns a *Failure if conditions of an ActionSet in the namespace own must not read an object. Of a Secret that was read, see RefuseSecret.
func (r Reach) RefuseRead(own string, resource schema.GroupResource, namespace, name string) error {
	if resource == corev1.Resource("secrets") {
		return r.Refuse(namespace, "reads a Secret")
	}
	return r.RefuseAccess(own, resource, namespace, name)
}

// RefuseChange returns a *Failure if a phase of an ActionSet in the namespace own must not create, patch or delete an object.
func (r Reach) RefuseChange(own string, resource schema.GroupResource, namespace, name string) error {
	in := namespace
	if in == "" && resource == corev1.Resource("namespaces") {
		in = name
	}
	if err := r.Refuse(in, "changes an object"); err != nil {
		return err
	}
	if namespace == "" && in == r.Served && in != "" {
		return Failf("the phase changes the Namespace %s, whose ActionSets the operator runs: no phase changes that", in)
	}
	if resource != corev1.Resource("secrets") {
		return r.RefuseAccess(own, resource, namespace, name)
	}
	switch {
	case strings.HasPrefix(name, SnapshotPrefix):
		return Failf("the Secret %s/%s has the name of a snapshot of a run, which only the operator makes and deletes: use another name", namespace, name)
	case r.Served == "" || namespace == r.Served:
		return Failf("the phase changes the Secret %s/%s in a namespace whose ActionSets the operator runs: there its right to Secrets is for its snapshots only. "+
			"Let it run those of a namespace without applications (--namespace)", namespace, name)
	default:
		return nil
	}
}

// RefuseSecret returns a *Failure if templates and conditions of an ActionSet in the namespace own must not read a Secret of this type and with this metadata:
// one that the operator makes for itself, such as a snapshot or the key of a certificate, a token of a ServiceAccount, or one in the operator's namespace if
// the ActionSet is in another one.
func (r Reach) RefuseSecret(own string, secret metav1.Object, secretType corev1.SecretType) error {
	namespace, name := secret.GetNamespace(), secret.GetName()
	switch {
	case secret.GetLabels()[LabelManagedBy] == ManagedBy:
		return Failf("the Secret %s/%s is the operator's own, and no template may read it: name another one", namespace, name)
	case r.Operator != "" && namespace == r.Operator && own != r.Operator:
		return Failf("the Secret %s/%s is in the namespace of the operator, and the ActionSet is not: name one in another namespace", namespace, name)
	default:
		return RefuseToken(namespace, name, secretType)
	}
}

// RefuseToken returns a *Failure if a Secret has the type of a token of a ServiceAccount, with which its reader could act as that account.
func RefuseToken(namespace, name string, secretType corev1.SecretType) error {
	if secretType != corev1.SecretTypeServiceAccountToken {
		return nil
	}
	return Failf("the Secret %s/%s is a token of a ServiceAccount, and phases neither read nor create one. "+
		"Let a Pod have that ServiceAccount: podOverride.serviceAccountName", namespace, name)
}
