// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Kanister's CustomResourceDefinition serves no status subresource.
func TestStatusNotServedHoldsRuns(t *testing.T) {
	for name, from := range map[string]func(a *apiServer){
		"from the start": func(a *apiServer) {
			a.serveStatus(false)
			a.startProcess()
		},
		"later": func(a *apiServer) {
			a.startProcess()
			a.serveStatus(false)
			a.create(newSet("go"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
				if name == "from the start" {
					a.create(newSet("go"))
				}
				from(a)
				a.waitHour()
				if got, made := a.states(), a.count(configMapsResource); got != "no status" || made > 0 {
					t.Fatalf("the states are %s, and %d phases were executed", got, made)
				}
				a.wantEqual("events", withoutAdded(a.takeEvents()), "s: Warning StatusNotServed: "+noStatusAPI)
				if err := a.controller.Ready(); err == nil || !strings.Contains(err.Error(), "actionsets.cr.kanister.io has no status subresource") {
					t.Errorf("ready: %v", err)
				}
				a.takeRequests()
				a.waitHour()
				a.wantEqual("requests while it waits", a.takeRequests())

				a.serveStatus(true)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if err := a.controller.Ready(); err != nil {
					t.Errorf("ready: %v", err)
				}
				a.waitHour()
				if got := a.states(); got != allComplete {
					t.Errorf("when the status is served the states are %s", got)
				}
			})
		})
	}
}

func TestStatusNotServedAllowsDelete(t *testing.T) {
	set := newSet("go")
	set.Finalizers = []string{Finalizer}
	inBubble(t, set, threePhases(), func(t *testing.T, a *apiServer) {
		a.serveStatus(false)
		a.startProcess()
		a.waitHour()
		a.delete()
		a.waitHour()
		if got := a.states(); got != "gone" {
			t.Errorf("the states are %s", got)
		}
	})
}

func withoutAdded(events []string) (rest []string) {
	for _, event := range events {
		if !strings.Contains(event, "Added blueprint") {
			rest = append(rest, event)
		}
	}
	return rest
}
