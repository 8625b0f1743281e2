// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

// flipTimes are when switches were moved down since midnight, by Switch.
func (a *apiServer) flipTimes() map[string]string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	times := map[string]string{}
	for _, f := range a.flips {
		times[f.name] += f.at.UTC().Format(" 04:05")
	}
	return times
}

func (a *apiServer) wantFlips(want map[string]string) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.flipTimes()); diff != "" {
		a.t.Errorf("flips (-want +got):\n%s", diff)
	}
}

func TestThreeFlippedSwitchesComeDownInTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(3))
		for _, name := range []string{"switch-pdxzk", "switch-b566m", "switch-kjfqt"} {
			a.flip(name, "up")
		}
		a.took()
		if got := a.machine("m").Status.Positions; got != "uuu" {
			t.Errorf("positions %q when they are seen, want uuu", got)
		}
		time.Sleep(time.Minute)
		a.wantFlips(map[string]string{"switch-b566m": " 01:05", "switch-kjfqt": " 01:10", "switch-pdxzk": " 01:15"})
		if requests := len(a.took()); requests != 3*5 {
			t.Errorf("%d requests, want five of each: reservation, flip, stamp, closing, and the event", requests)
		}
	})
}

func TestFlippedAgainWaitsAgain(t *testing.T) {
	for name, seen := range map[string]bool{"after it was seen down": true, "before it was seen down": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				machine := newMachine(1)
				machine.Spec.FlipDelaySeconds = 20
				a.started(machine)
				a.flip("switch-pdxzk", "up")
				time.Sleep(19 * time.Second)
				if !seen {
					synctest.Wait()
					a.Freeze(switches.GroupVersionResource)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				a.flip("switch-pdxzk", "up")
				a.Thaw(switches.GroupVersionResource)
				time.Sleep(time.Minute)
				a.wantFlips(map[string]string{"switch-pdxzk": " 01:20 01:40"})
			})
		})
	}
}

func TestARestartInMidWaitNeitherForgetsNorHurries(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := a.started(newMachine(2))
		a.flip("switch-b566m", "up")
		a.flip("switch-pdxzk", "up")
		time.Sleep(3 * time.Second)
		stop()
		stop, _ = a.operate()
		time.Sleep(4 * time.Second)
		a.wantFlips(map[string]string{"switch-b566m": " 01:05"})
		stop()
		a.operate()
		time.Sleep(time.Minute)
		a.wantFlips(map[string]string{"switch-b566m": " 01:05", "switch-pdxzk": " 01:10"})
	})
}

func TestTimesInTheFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		hour := timeAt(time.Now().Add(time.Hour))
		machine := newMachine(1, withLever("up"))
		machine.Status.SeenAt, machine.Status.LastFlipTime = hour, hour
		a.apply(machine)
		a.make(switchOf("mine", orphaned, position("up"), func(sw *v1alpha1.Switch) { sw.Status.SeenAt = hour }))
		a.operate()
		time.Sleep(time.Minute)
		a.wantFlips(map[string]string{"mine": " 00:05"})
		if lever := a.machine("m").Spec.SwitchPosition; lever != "down" {
			t.Errorf("the lever is %s after a minute", lever)
		}
	})
}

func TestLeverMovesAfterItsDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(1))
		a.edit("m", func(m *v1alpha1.Machine) { m.Spec.SwitchPosition = "up" })
		a.wants("when it is seen",
			`status of m: 1 "d", Ready=True Complete, lever seen 00:01:00`,
			`event Normal SeenUp "Seen: the lever is up"`)
		time.Sleep(5 * time.Second)
		a.wants("after the delay",
			"lever of m down",
			`status of m: 1 "d", Ready=True Complete`,
			`event Normal Flipped "Moved the lever down"`)
		time.Sleep(time.Hour)
		a.wants("afterwards")
	})
}

func TestAFlipWhoseAnswerIsLostIsNotDoneTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2))
		lost := false
		a.LoseIf(func(r *fakeapi.Request) error {
			if strings.HasPrefix(requestText(r), "flip") && !lost {
				lost = true
				return errors.New("connection reset")
			}
			return nil
		})
		a.flip("switch-b566m", "up")
		a.flip("switch-pdxzk", "up")
		time.Sleep(time.Minute)
		a.wantFlips(map[string]string{"switch-b566m": " 01:05", "switch-pdxzk": " 01:10"})
	})
}

func TestOneReservationAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := a.started(newMachine(2))
		a.flip("switch-b566m", "up")
		a.flip("switch-pdxzk", "up")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		a.Freeze(switches.GroupVersionResource)
		time.Sleep(time.Hour)
		a.wantFlips(map[string]string{"switch-b566m": " 01:05"})
		if flip := a.machine("m").Status.Flip; flip == nil || flip.Switch != "switch-b566m" {
			t.Errorf("the reservation is %v, want the first, open", flip)
		}
		a.took()
		a.Thaw(switches.GroupVersionResource)
		time.Sleep(time.Minute)
		a.wantFlips(map[string]string{"switch-b566m": " 01:05", "switch-pdxzk": " 01:09"})
		stop()
	})
}

func TestNextLeaderCompletesAReservation(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := a.started(newMachine(2))
		a.failIf(failing("flip", -1, errors.New("the process is killed")))
		a.flip("switch-pdxzk", "up")
		time.Sleep(time.Second)
		a.flip("switch-b566m", "up")
		time.Sleep(10 * time.Second)
		stop()
		a.FailIf(nil)
		time.Sleep(49 * time.Second)
		a.operate()
		time.Sleep(time.Minute)
		a.wantFlips(map[string]string{"switch-pdxzk": " 02:00", "switch-b566m": " 02:05"})
	})
}

func TestPositions(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		machine := newMachine(4)
		machine.Spec.FlipDelaySeconds = 3600
		for _, sw := range []*v1alpha1.Switch{switchOf("d", orphaned, position("über")), switchOf("b", orphaned, position("")),
			switchOf("c", orphaned, position("下")), switchOf("a", orphaned)} {
			a.make(sw)
		}
		stop := a.started(machine)
		if got, want := a.machine("m").Status.Positions, "d?下ü"; got != want {
			t.Errorf("positions %q, want %q", got, want)
		}
		for range 10 { // lists come in random order
			stop()
			stop, _ = a.operate()
			a.wants("of another process")
		}
	})
}

func TestRestoredReservationOfALostSwitch(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		machine := newMachine(1, reservedFlip("gone", "10"))
		a.started(machine)
		if status := a.machine("m").Status; status.Flip != nil || status.LastFlipTime == nil {
			t.Errorf("the reservation is %v, last flip %v: want it closed", status.Flip, status.LastFlipTime)
		}
	})
}
