// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// OperatorAccounts returns the ServiceAccounts of the operator in the manifests. Pods of phases cannot have one of these names, in any
// namespace.
func OperatorAccounts() []string {
	return []string{"farm-operator", "millwright-actions", "millwright-core", "millwright-engine"}
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
