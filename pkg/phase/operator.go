// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OperatorAccounts are the ServiceAccounts that the manifests run the operator as. No Pod of a phase has one of them, in whichever namespace.
func OperatorAccounts() []string {
	return []string{"farm-operator", "millwright-actions", "millwright-core", "millwright-engine"}
}

// OperatorNamespace is the namespace that the operator itself runs in; "" where it is not known. No phase works there: a Pod in that namespace could
// have the operator's ServiceAccount, and with it the operator's rights.
type OperatorNamespace string

// Refuse returns a *Failure if what is to be done is in the operator's own namespace. doing is as in "creates a Pod".
func (o OperatorNamespace) Refuse(namespace, doing string) error {
	if o == "" || namespace != string(o) {
		return nil
	}
	return Failf("the phase %s in the namespace %s, which is the operator's own: no phase works there. "+
		"Name the namespace of the application in the arguments of the phase", doing, namespace)
}

// RefuseObject likewise for an object of any kind, the Namespace itself included.
func (o OperatorNamespace) RefuseObject(resource schema.GroupResource, namespace, name, doing string) error {
	if namespace == "" && resource == corev1.Resource("namespaces") {
		namespace = name
	}
	return o.Refuse(namespace, doing)
}

// RefuseAccount returns a *Failure if a Pod is to run as the operator.
func RefuseAccount(spec *corev1.PodSpec) error {
	for _, account := range []string{spec.ServiceAccountName, spec.DeprecatedServiceAccount} {
		if slices.Contains(OperatorAccounts(), account) {
			return Failf("the Pod is to have the ServiceAccount %s, which is the operator's: no Pod of a phase has it. "+
				"Name another one in podOverride, serviceaccount or --phase-service-account, or none", account)
		}
	}
	return nil
}
