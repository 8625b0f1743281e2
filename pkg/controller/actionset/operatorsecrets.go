// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// refuseSecret returns a *phase.Failure for a Secret that is the operator's: what it makes for itself, such as the key of a certificate, and
// the tokens of accounts in its own namespace. No template sees them.
func refuseSecret(secret metav1.Object, secretType corev1.SecretType, operatorNamespace string) error {
	made := secret.GetLabels()[controller.LabelManagedBy] == controller.ManagedBy
	token := secretType == corev1.SecretTypeServiceAccountToken && operatorNamespace != "" && secret.GetNamespace() == operatorNamespace
	if !made && !token {
		return nil
	}
	return phase.Failf("the Secret %s/%s is the operator's own, and no template may read it: name another one", secret.GetNamespace(), secret.GetName())
}
