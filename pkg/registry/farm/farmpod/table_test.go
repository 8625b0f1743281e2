// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

func tableOf(t *testing.T, object runtime.Object, options *metav1.TableOptions) *metav1.Table {
	t.Helper()
	table, err := (&REST{}).ConvertToTable(t.Context(), object, options)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTableColumns(t *testing.T) {
	pod := testPod("dolly", containers(restarted(2, running("main")), notReady(running("log"))))
	pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-5 * time.Minute))
	fresh := testPod("fresh", phase(corev1.PodPending), containers(), func(pod *corev1.Pod) { pod.Spec.NodeName, pod.CreationTimestamp = "", metav1.Time{} })
	table := tableOf(t, &farm.FarmPodList{
		ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more", RemainingItemCount: ptr.To(int64(1))},
		Items:    []farm.FarmPod{*convert(pod), *convert(fresh)},
	}, &metav1.TableOptions{})

	var names []string
	wide := 0
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
		if column.Priority > 0 {
			wide++
		}
	}
	if diff := cmp.Diff([]string{"Name", "Containers", "Ready", "Status", "Restarts", "Age", "Pod", "Node", "Images"}, names); diff != "" || wide != 3 {
		t.Errorf("%d columns are only in wide tables; all (-want +got):\n%s", wide, diff)
	}
	want := [][]any{
		{"farm-dolly", int64(2), "1/2", "Running", int64(2), "5m", "dolly", "node-1", "example.com/main:1,example.com/log:1"},
		{"farm-fresh", int64(0), "0/0", "Pending", int64(0), "<unknown>", "fresh", "<none>", "<none>"},
	}
	for i, row := range table.Rows {
		if diff := cmp.Diff(want[i], row.Cells); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
		if row.Object.Object == nil {
			t.Errorf("row %d has no object for those who ask for it", i)
		}
	}
	if diff := cmp.Diff(metav1.ListMeta{ResourceVersion: "9", Continue: "more", RemainingItemCount: ptr.To(int64(1))}, table.ListMeta); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestTableOfOneFarmPod(t *testing.T) {
	table := tableOf(t, convert(testPod("dolly")), &metav1.TableOptions{NoHeaders: true})
	if len(table.Rows) != 1 || table.ResourceVersion != "41" || len(table.ColumnDefinitions) != 0 {
		t.Errorf("table is %+v", table)
	}
}

func TestTheRowOfAPodThatWillNotRunAgainIsMarked(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]int{corev1.PodRunning: 0, corev1.PodPending: 0, corev1.PodSucceeded: 1, corev1.PodFailed: 1} {
		pod := testPod("dolly")
		pod.Status.Phase = phase
		row := tableOf(t, convert(pod), &metav1.TableOptions{}).Rows[0]
		if len(row.Conditions) != want || want == 1 && (row.Conditions[0].Type != metav1.RowCompleted || row.Conditions[0].Reason != string(phase)) {
			t.Errorf("conditions of the row of a Pod that is %s: %v", phase, row.Conditions)
		}
	}
}

func TestOnlyFarmPodsHaveATable(t *testing.T) {
	if _, err := (&REST{}).ConvertToTable(t.Context(), testPod("dolly"), nil); err == nil {
		t.Error("a Pod has a table of FarmPods")
	}
}
