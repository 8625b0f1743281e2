// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the FarmPod: that of the Pod after " + farm.FarmPodPrefix},
	{Name: "Containers", Type: "integer", Description: "How many containers the Pod has, without init and ephemeral containers"},
	{Name: "Ready", Type: "string", Description: "How many of them are ready"},
	{Name: "Status", Type: "string", Description: "How the Pod is, as for Pods"},
	{Name: "Restarts", Type: "integer", Description: "How often containers of the Pod were restarted"},
	{Name: "Age", Type: "string", Description: "How long there has been the Pod"},
	{Name: "Pod", Type: "string", Priority: 1, Description: "Name of the Pod"},
	{Name: "Node", Type: "string", Priority: 1, Description: "The node that the Pod is on"},
	{Name: "Images", Type: "string", Priority: 1, Description: "Images of the containers"},
}

// ConvertToTable implements rest.TableConvertor. The objects of the rows are added by the caller.
func (*REST) ConvertToTable(_ context.Context, object runtime.Object, options runtime.Object) (*metav1.Table, error) {
	shown := &metav1.Table{}
	switch object := object.(type) {
	case *farm.FarmPodList:
		shown.ListMeta = object.ListMeta
		shown.Rows = make([]metav1.TableRow, len(object.Items))
		for i := range object.Items {
			shown.Rows[i] = row(&object.Items[i])
		}
	case *farm.FarmPod:
		shown.ResourceVersion = object.ResourceVersion
		shown.Rows = []metav1.TableRow{row(object)}
	default:
		return nil, fmt.Errorf("making a table of farmpods: a %T is none", object)
	}
	if asked, ok := options.(*metav1.TableOptions); !ok || !asked.NoHeaders {
		shown.ColumnDefinitions = columns
	}
	return shown, nil
}

func row(shown *farm.FarmPod) metav1.TableRow {
	status := &shown.Status
	return metav1.TableRow{
		Cells: []any{
			shown.Name,
			int64(shown.Spec.Containers),
			fmt.Sprintf("%d/%d", status.ReadyContainers, shown.Spec.Containers),
			status.Reason,
			int64(status.Restarts),
			table.ConvertToHumanReadableDateType(shown.CreationTimestamp),
			status.PodName,
			orNone(status.NodeName),
			orNone(strings.Join(status.Images, ",")),
		},
		Conditions: completed(status.Phase),
		Object:     runtime.RawExtension{Object: shown},
	}
}

// completed marks the rows of Pods that will not run again.
func completed(phase corev1.PodPhase) []metav1.TableRowCondition {
	switch phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		return []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(phase), Message: "The Pod will not run again."}}
	default:
		return nil
	}
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}
