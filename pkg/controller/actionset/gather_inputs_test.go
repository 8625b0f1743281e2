// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// One Secret may be named by a thousand names, each of which holds a copy.
func TestInputSizeLimit(t *testing.T) {
	references := map[string]v1alpha1.ObjectReference{}
	for i := range 1000 {
		references[fmt.Sprint(i)] = v1alpha1.ObjectReference{Name: "large"}
	}
	var f inputs
	read := 0
	_, err := readAll(t.Context(), &f, references, false, func(context.Context, v1alpha1.ObjectReference) (*corev1.Secret, error) {
		read++
		return &corev1.Secret{Data: map[string][]byte{"a": make([]byte, corev1.MaxSecretSize-1)}}, nil
	})
	if message, ok := phase.FailureOf(err); !ok || !strings.Contains(message, "more than 8388608 bytes together") || read > 9 {
		t.Errorf("after %d Secrets: %v", read, err)
	}
}
