// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

// decoratorOf returns a DecoratorController with ConfigMaps as attachments and these types of targets of example.com/v1, each with a label selector.
func decoratorOf(resources ...string) *v1alpha1.DecoratorController {
	dc := &v1alpha1.DecoratorController{ObjectMeta: metav1.ObjectMeta{Name: "dc", UID: "dc", Generation: 7}}
	for _, resource := range resources {
		dc.Spec.Resources = append(dc.Spec.Resources, v1alpha1.DecoratorControllerResourceRule{
			ResourceRule:  v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: resource},
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"on": "yes"}},
		})
	}
	dc.Spec.Hooks = &v1alpha1.DecoratorControllerHooks{Sync: webhookAt("http://hook/sync")}
	dc.Spec.Attachments = []v1alpha1.DecoratorControllerAttachmentRule{{ResourceRule: v1alpha1.ResourceRule{APIVersion: "v1", Resource: "configmaps"}}}
	return dc
}

func TestDecoratorStatus(t *testing.T) {
	dc := decoratorOf("things", "others", "things")
	status := statusOf(parent.FromDecorator(dc), health{synced: true}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	status.SetOn(dc)
	want := v1alpha1.DecoratorControllerStatus{
		ObservedGeneration: 7, Resources: "things,others", Attachments: "configmaps",
		Conditions: []metav1.Condition{{
			Type: "Ready", Status: "True", Reason: "Serving", Message: "targets are synced", ObservedGeneration: 7,
			LastTransitionTime: metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		}},
	}
	if diff := cmp.Diff(want, dc.Status); diff != "" {
		t.Errorf("the status (-want +got):\n%s", diff)
	}
}

func TestDecoratorFormerTargets(t *testing.T) {
	type rules = []v1alpha1.ResourceRule
	things := v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "things"}
	others := v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "others"}
	for name, test := range map[string]struct {
		targets  []string
		finalize bool
		recorded rules
		want     rules
		former   rules
	}{
		"two types":          {targets: []string{"things", "others"}, finalize: true, want: rules{things, others}},
		"recorded before":    {targets: []string{"others", "things"}, finalize: true, recorded: rules{things, others}, want: rules{things, others}},
		"a type is removed":  {targets: []string{"things"}, finalize: true, recorded: rules{things, others}, want: rules{things, others}, former: rules{others}},
		"a type is replaced": {targets: []string{"things"}, finalize: true, recorded: rules{others}, want: rules{others, things}, former: rules{others}},
		"no finalize hook":   {targets: []string{"things"}, recorded: rules{others}, want: rules{others}, former: rules{others}},
	} {
		t.Run(name, func(t *testing.T) {
			dc := decoratorOf(test.targets...)
			dc.Status.FinalizedResources = test.recorded
			if test.finalize {
				dc.Spec.Hooks.Finalize = webhookAt("http://hook/finalize")
				dc.Finalizers = []string{"millwright.dev/decoratorcontroller"}
			}
			d := parent.FromDecorator(dc)
			if diff := cmp.Diff(test.want, parentsRecord(d), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.former, formerParents(d), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("former (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecoratorStandby(t *testing.T) {
	c := &Controller{Config: Config{TargetSelector: labels.Everything()}}
	requests := c.standbyRequests(parent.FromDecorator(decoratorOf("things", "others", "others")))
	var got []string
	for _, request := range requests {
		selector := "all"
		if request.Selector != nil {
			selector = request.Selector.String()
		}
		got = append(got, request.Resource.Resource+" "+selector)
	}
	if diff := cmp.Diff([]string{"configmaps all", "things on=yes", "others all"}, got); diff != "" {
		t.Errorf("watches of a standby (-want +got):\n%s", diff)
	}
}
