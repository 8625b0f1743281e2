// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"crypto/sha256"
	"sync"
	"time"
)

// The pace is sampled every paceInterval by hashing paceBytes, which takes about two milliseconds of CPU time.
const (
	paceInterval = 100 * time.Millisecond
	paceBytes    = 2 << 20
)

// pace has the durations of a fixed piece of work on this machine since the tests began.
var pace struct {
	lock    sync.Mutex
	samples []paceSample
	fastest time.Duration
}

// paceSample is one duration of the piece of work, from the time at which it was due.
type paceSample struct {
	ended time.Time
	took  time.Duration
}

// samplePace samples the pace of the machine until stop is closed.
func samplePace(stop <-chan struct{}) {
	work := make([]byte, paceBytes)
	for due := time.Now(); ; {
		sha256.Sum256(work)
		ended := time.Now()
		took := max(ended.Sub(due), 1)
		pace.lock.Lock()
		pace.samples = append(pace.samples, paceSample{ended, took})
		if pace.fastest == 0 || took < pace.fastest {
			pace.fastest = took
		}
		pace.lock.Unlock()
		due = ended.Add(paceInterval)
		select {
		case <-stop:
			return
		case <-time.After(paceInterval):
		}
	}
}

// Stretch returns a time limit for an operation that began then and has just ended: the given limit on an idle machine, and in proportion
// more on a machine that was busy meanwhile or gave this process only a part of a core. So a test compares a duration with the speed of the
// same machine at the same time, and not with a clock.
func Stretch(limit time.Duration, begin time.Time) time.Duration {
	pace.lock.Lock()
	defer pace.lock.Unlock()
	return time.Duration(float64(limit) * slowness(pace.samples, pace.fastest, begin))
}

// slowness returns the average duration of the samples since begin, divided by the fastest, at least 1. If there is no sample since begin,
// the last one counts.
func slowness(samples []paceSample, fastest time.Duration, begin time.Time) float64 {
	var sum time.Duration
	count := 0
	for i := len(samples) - 1; i >= 0; i-- {
		if samples[i].ended.Before(begin) && count > 0 {
			break
		}
		sum += samples[i].took
		count++
	}
	if count == 0 || fastest <= 0 {
		return 1
	}
	return max(1, float64(sum)/float64(count)/float64(fastest))
}
