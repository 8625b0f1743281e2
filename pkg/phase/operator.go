// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OperatorAccounts returns the ServiceAccounts of the operator in the manifests. Pods of phases cannot have one of these names, in any
// namespace.
func OperatorAccounts() []string {
	return []string{"farm-operator", "millwright-actions", "millwright-core", "millwright-engine"}
}

// OperatorNamespace is the namespace of the operator itself; "" if it is not known. No phase works there: a Pod in that namespace could
// have the operator's ServiceAccount, and with it the operator's rights.
type OperatorNamespace string

// Refuse returns a *Failure if a phase would work in the operator's own namespace. doing is what the phase does, as in "creates a Pod".
func (o OperatorNamespace) Refuse(namespace, doing string) error {
	if o == "" || namespace != string(o) {
		return nil
	}
	return Failf("the phase %s in the namespace %s, which is the operator's own: no phase works there. "+
		"Name the namespace of the application in the arguments of the phase", doing, namespace)
}

// RefuseObject is Refuse for an object of any kind, including the Namespace itself.
func (o OperatorNamespace) RefuseObject(resource schema.GroupResource, namespace, name, doing string) error {
	if namespace == "" && resource == corev1.Resource("namespaces") {
		namespace = name
	}
	return o.Refuse(namespace, doing)
}

// RefuseAccount returns a *Failure if a Pod would have the ServiceAccount of the operator.
func RefuseAccount(spec *corev1.PodSpec) error {
	for _, account := range []string{spec.ServiceAccountName, spec.DeprecatedServiceAccount} {
		if slices.Contains(OperatorAccounts(), account) {
			return Failf("the Pod would have the ServiceAccount %s, which is the operator's: no Pod of a phase can have it. "+
				"Name another one in podOverride, serviceaccount or --phase-service-account, or none", account)
		}
	}
	return nil
}
