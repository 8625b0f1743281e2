// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// IsNamespaceGone reports whether a namespace does not exist, or is terminating. Then the RoleBindings in it may be deleted before its other objects,
// which the API server deletes, too.
func IsNamespaceGone(ctx context.Context, client kubernetes.Interface, name string) (bool, error) {
	namespace, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	return namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating, nil
}
