// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"fmt"
	"strconv"
	"time"
)

// clock has the functions of sprig that need a time. Theirs is the machine's; this one stands still at the start of the action.
type clock struct{ now time.Time }

// at is the time that a template means. As in sprig, what is no time is now.
func (c clock) at(date any) time.Time {
	switch date := date.(type) {
	case time.Time:
		return date
	case *time.Time:
		if date != nil {
			return *date
		}
	case int64:
		return time.Unix(date, 0)
	case int:
		return time.Unix(int64(date), 0)
	case int32:
		return time.Unix(int64(date), 0)
	}
	return c.now
}

func (c clock) ago(date any) string { return c.now.Sub(c.at(date)).Round(time.Second).String() }

func (c clock) date(layout string, date any) string { return c.at(date).UTC().Format(layout) }

// dateInZone knows UTC alone: other zones are files of the machine.
func (c clock) dateInZone(layout string, date any, zone string) (string, error) {
	switch zone {
	case "", "UTC", "Local":
		return c.date(layout, date), nil
	default:
		return "", fmt.Errorf("unknown time zone %q: templates know UTC only", zone)
	}
}

func (c clock) htmlDate(date any) string { return c.date(time.DateOnly, date) }

func (c clock) htmlDateInZone(date any, zone string) (string, error) {
	return c.dateInZone(time.DateOnly, date, zone)
}

// toDate is the zero time for a text that is none.
func (c clock) toDate(layout, text string) time.Time {
	parsed, _ := c.mustToDate(layout, text)
	return parsed
}

// mustToDate takes a time without a zone for UTC. time.Parse would look at the machine's zone even so.
func (clock) mustToDate(layout, text string) (time.Time, error) {
	return time.ParseInLocation(layout, text, time.UTC)
}

// durationRound is a duration in its largest unit, rounded down: 2h10m is 2h.
func (c clock) durationRound(duration any) string {
	var d time.Duration
	switch duration := duration.(type) {
	case string:
		d, _ = time.ParseDuration(duration)
	case int64:
		d = time.Duration(duration)
	case time.Time:
		d = c.now.Sub(duration)
	}
	const day = 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{365 * day, "y"}, {30 * day, "mo"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d.Abs() > unit.length {
			return strconv.FormatInt(int64(d.Abs()/unit.length), 10) + unit.name
		}
	}
	return "0s"
}
