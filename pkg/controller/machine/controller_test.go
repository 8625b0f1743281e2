// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"
)

func TestRequestsOfANewMachine(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.apply(newMachine(3))
		a.operate()
		a.wants("for three switches",
			"create switch-b566m", "create switch-kjfqt", "create switch-pdxzk",
			`status of m: 3 "ddd", Ready=True Complete`,
			`event Normal SwitchCreated "Created: switch-b566m, switch-kjfqt, switch-pdxzk"`)
		time.Sleep(time.Hour)
		a.wants("in an hour in which nothing happens")
	})
}

func TestAFlipCostsSixWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.apply(newMachine(1))
		a.operate()
		a.took()
		a.flip("switch-pdxzk", "up")
		a.wants("when it is seen",
			"stamp switch-pdxzk seen 00:00:00",
			`status of m: 1 "u", Ready=True Complete`,
			`event Normal SeenUp "Seen: switch-pdxzk is up"`)
		time.Sleep(4999 * time.Millisecond)
		a.wants("before the delay is over")
		time.Sleep(time.Millisecond)
		a.wants("when it is over",
			`status of m: 1 "u", Ready=True Complete, flip of switch-pdxzk`,
			"flip switch-pdxzk down",
			"stamp switch-pdxzk down",
			`status of m: 1 "d", Ready=True Complete, last flip 00:00:05`,
			`event Normal Flipped "Moved switch switch-pdxzk down"`)
		time.Sleep(time.Hour)
		a.wants("afterwards")
	})
}
