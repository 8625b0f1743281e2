// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestCurrentReplicaSet(t *testing.T) {
	set := func(name string, owner types.UID, revision string) appsv1.ReplicaSet {
		return appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Name: name, OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: ptr.To(true)}},
			Annotations: map[string]string{annotationRevision: revision},
		}}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "d", Annotations: map[string]string{annotationRevision: "2"}}}
	sets := []appsv1.ReplicaSet{set("old", "d", "1"), set("theirs", "x", "2"), set("current", "d", "2")}
	if current := CurrentReplicaSet(deployment, sets); current == nil || current.Name != "current" {
		t.Errorf("it is %v", current)
	}
	if current := CurrentReplicaSet(deployment, sets[:2]); current != nil {
		t.Errorf("it is %s, and there is none", current.Name)
	}
}
