// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// deletes removes each Pod, for so long, when it has lived so long, and returns the requests.
func (a *apiServer) deletes(howLong, life time.Duration) []string {
	a.t.Helper()
	var known types.UID
	var since time.Time
	for end := time.Now().Add(howLong); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		uid := a.podUID()
		if uid != known {
			known, since = uid, time.Now()
		}
		if uid != "" && time.Since(since) >= life {
			a.podIsDeleted()
			a.podGoes()
		}
	}
	return a.took()
}

// podUID is that of the Pod, "" where there is none.
func (a *apiServer) podUID() types.UID {
	synctest.Wait()
	if pod := a.pod(); pod != nil {
		return pod.UID
	}
	return ""
}

// until waits for the condition, for two minutes at most.
func (a *apiServer) until(condition func() bool) {
	a.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatal("it does not come")
		}
	}
}

func creations(requests []string) int {
	return len(slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return !strings.HasPrefix(r, "create Pod") }))
}

func TestContestedPodBacksOff(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		requests := a.deletes(10*time.Minute, 0)
		// Ten immediately, then 1, 2, 4, ... 60 s later.
		if got := creations(requests); got < 20 || got > 28 {
			t.Errorf("in ten minutes %d Pods were created:\n%s", got, strings.Join(requests, "\n"))
		}
		if !slices.ContainsFunc(requests, func(r string) bool { return strings.HasPrefix(r, "event Warning Contested") }) {
			t.Errorf("no event says so:\n%s", strings.Join(requests, "\n"))
		}
		a.until(func() bool { return a.podUID() != "" })
		a.podBecomes(podReady)
		time.Sleep(time.Hour)
		if status := a.container().Status; !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
			t.Errorf("an hour after it was left alone the status is %+v", status)
		}
		a.took()
		// What was is forgotten.
		if got := creations(a.deletes(time.Second, 0)); got < 9 {
			t.Errorf("an hour later, %d Pods were created in a second", got)
		}
	})
}

func TestRareDeletionIsRepairedImmediately(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		if got := creations(a.deletes(time.Hour, 4*time.Second)); got < 800 {
			t.Errorf("in an hour %d Pods were created, each of which lived 4 s", got)
		}
	})
}

func TestAnEditEndsThePauseOfAContestedPod(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.deletes(5*time.Minute, 0)
		if a.podUID() != "" {
			t.Fatal("there is no pause")
		}
		a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" })
		synctest.Wait()
		if a.podUID() == "" {
			t.Errorf("no Pod of the new spec is created:\n%s", strings.Join(a.took(), "\n"))
		}
	})
}

func TestContestedPauseSurvivesARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		a.deletes(5*time.Minute, 0)
		if a.podUID() != "" {
			t.Fatal("there is no pause")
		}
		stop()
		a.took()
		a.operate()
		synctest.Wait()
		if requests := a.took(); creations(requests) > 0 {
			t.Errorf("the other process does not wait:\n%s", strings.Join(requests, "\n"))
		}
		a.until(func() bool { return a.podUID() != "" })
	})
}
