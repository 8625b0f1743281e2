// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestOwnership(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("House")
	owner := &metav1.ObjectMeta{Name: "h", UID: "uid-h"}
	controlledBy := func(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
	}
	for name, tc := range map[string]struct {
		owners   []metav1.OwnerReference
		marked   bool
		deleting bool
		want     Ownership
	}{
		"controlled by the owner":               {controlledBy("v1", "House", "h", "uid-h"), true, false, Owned},
		"controlled by the owner, without mark": {controlledBy("v1", "House", "h", "uid-h"), false, false, Owned},
		"controlled by the owner, deleting":     {controlledBy("v1", "House", "h", "uid-h"), true, true, Terminating},
		"controlled by an earlier owner":        {controlledBy("v1", "House", "h", "uid-g"), true, false, Terminating},
		"controlled by another owner":           {controlledBy("v1", "House", "i", "uid-i"), true, false, Foreign},
		"controlled by another version":         {controlledBy("v2", "House", "h", "uid-g"), true, false, Foreign},
		"controlled by another kind":            {controlledBy("v1", "Tent", "h", "uid-t"), true, false, Foreign},
		"controlled by another kind, deleting":  {controlledBy("v1", "Tent", "h", "uid-t"), true, true, Foreign},
		"without controller, marked":            {nil, true, false, Orphaned},
		"without controller, marked, deleting":  {nil, true, true, Terminating},
		"without controller, unmarked":          {nil, false, false, Foreign},
		"an owner that is no controller":        {[]metav1.OwnerReference{{UID: "uid-h"}}, true, false, Orphaned},
	} {
		t.Run(name, func(t *testing.T) {
			child := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", OwnerReferences: tc.owners}}
			if tc.deleting {
				child.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
			}
			if got := OwnershipOf(owner, kind, child, func(*corev1.Pod) bool { return tc.marked }); got != tc.want {
				t.Errorf("ownership is %v, want %v", got, tc.want)
			}
		})
	}
	if got := OwnershipOf(owner, kind, nil, func(*corev1.Pod) bool { return true }); got != None {
		t.Errorf("ownership of no child is %v, want None", got)
	}
}
