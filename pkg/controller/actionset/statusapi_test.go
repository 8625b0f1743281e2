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
			a.operate()
		},
		"later": func(a *apiServer) {
			a.operate()
			a.serveStatus(false)
			a.put(newSet("go"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
				if name == "from the start" {
					a.put(newSet("go"))
				}
				from(a)
				a.settles()
				if got, made := a.states(), a.count(configMapsResource); got != "no status" || made > 0 {
					t.Fatalf("it is %s, and %d phases were executed", got, made)
				}
				a.wants("events", withoutGreetings(a.said()), "s: Warning StatusNotServed: "+noStatusAPI)
				if err := a.controller.Ready(); err == nil || !strings.Contains(err.Error(), "actionsets.cr.kanister.io has no status subresource") {
					t.Errorf("ready: %v", err)
				}
				a.took()
				a.settles()
				a.wants("requests while it waits", a.took())

				a.serveStatus(true)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if err := a.controller.Ready(); err != nil {
					t.Errorf("ready: %v", err)
				}
				a.settles()
				if got := a.states(); got != allComplete {
					t.Errorf("when the status is served it is %s", got)
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
		a.operate()
		a.settles()
		a.deleted()
		a.settles()
		if got := a.states(); got != "gone" {
			t.Errorf("it is %s", got)
		}
	})
}

func withoutGreetings(events []string) (rest []string) {
	for _, event := range events {
		if !strings.Contains(event, "Added blueprint") {
			rest = append(rest, event)
		}
	}
	return rest
}
