// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// happening is what another client does while the controller works.
type happening struct {
	name string
	do   func(a *apiServer)
}

var happenings = []happening{
	{"the image is edited", func(a *apiServer) { a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" }) }},
	{"the Pod is deleted", func(a *apiServer) { a.podIsDeleted() }},
	{"the Pod fails", func(a *apiServer) { a.podFails() }},
	{"it is suspended and resumed", func(a *apiServer) {
		a.edit(suspended)
		a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Suspend = false })
	}},
}

// permutations of the happenings.
func permutations(of []happening) [][]happening {
	if len(of) == 0 {
		return [][]happening{nil}
	}
	var all [][]happening
	for i := range of {
		rest := slices.Delete(slices.Clone(of), i, i+1)
		for _, permutation := range permutations(rest) {
			all = append(all, append([]happening{of[i]}, permutation...))
		}
	}
	return all
}

// wantAlive is the one final state: one Pod, of the final spec, ready, and every start counted exactly once.
func (a *apiServer) wantAlive() {
	a.t.Helper()
	container, pod := a.container(), a.pod()
	if pod == nil || pod.DeletionTimestamp != nil {
		a.t.Fatalf("there is no Pod in the end, with %s", describeStatus(container.Status))
	}
	if got, want := pod.Spec.Containers[0].Image, container.Spec.Image; got != want {
		a.t.Errorf("the Pod runs %s, want %s", got, want)
	}
	status := container.Status
	status.LastTermination, status.ConsecutiveTerminations = nil, 0 // they depend on what happened
	want := fmt.Sprintf("status: start %d, seen %d, generation %d, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running",
		len(a.starts), len(a.starts), container.Generation)
	if diff := cmp.Diff(want, describeStatus(status)); diff != "" {
		a.t.Errorf("final status (-want +got):\n%s", diff)
	}
	for i, start := range a.starts {
		if start != int64(i+1) {
			a.t.Errorf("the Pods that were created are those of the starts %v, want each number once", a.starts)
			break
		}
	}
}

func TestEventOrders(t *testing.T) {
	paces := map[string]func(){
		"together":        func() {},
		"one by one":      synctest.Wait,
		"seconds between": func() { time.Sleep(3 * time.Second) },
	}
	for pace, wait := range paces {
		for _, order := range permutations(happenings) {
			var names []string
			for _, h := range order {
				names = append(names, h.name)
			}
			t.Run(pace+", "+strings.Join(names, ", "), func(t *testing.T) {
				inBubble(t, func(t *testing.T, a *apiServer) {
					coldStart(a)
					for _, h := range order {
						h.do(a)
						wait()
					}
					a.kubelet(12)
					a.wantAlive()
				})
			})
		}
	}
}

// interleavings are all orders of the events of two watches.
func interleavings(pods, containers int) [][]string {
	if pods == 0 && containers == 0 {
		return [][]string{nil}
	}
	var all [][]string
	add := func(first string, rest [][]string) {
		for _, r := range rest {
			all = append(all, append([]string{first}, r...))
		}
	}
	if pods > 0 {
		add("pods", interleavings(pods-1, containers))
	}
	if containers > 0 {
		add("immortalcontainers", interleavings(pods, containers-1))
	}
	return all
}

// The watches of two resources are not ordered among each other: what happened in one order may be seen in any other.
func TestLaggingWatches(t *testing.T) {
	for name, podGoes := range map[string]func(a *apiServer){
		"the Pod is deleted": func(a *apiServer) { a.podIsDeleted(); a.podGoes() },
		"the Pod fails and is labelled by a user": func(a *apiServer) {
			a.podFails()
			a.podBecomes(func(p *corev1.Pod) { p.Labels["seen"] = "by a user" })
		},
	} {
		for _, order := range interleavings(2, 3) {
			t.Run(name+", seen as "+strings.Join(order, ", "), func(t *testing.T) {
				inBubble(t, func(t *testing.T, a *apiServer) {
					coldStart(a)
					a.Freeze()
					a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" })
					podGoes(a)
					a.edit(suspended)
					a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Suspend = false })
					for _, resource := range order {
						a.release(resource)
					}
					a.Thaw()
					a.kubelet(12)
					a.wantAlive()
				})
			})
		}
	}
}
