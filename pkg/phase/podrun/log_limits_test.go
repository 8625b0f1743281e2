// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/phase"
)

// How many the ActionSets of one namespace may have in this process, which has no memory limit.
var (
	maxRunningOfNamespace, _      = inflight.Shared(maxRunning)
	maxEndedOfNamespace, _        = inflight.Shared(maxEnded)
	maxLargeRunningOfNamespace, _ = inflight.Shared(maxLargeRunning)
	maxLargeEndedOfNamespace, _   = inflight.Shared(maxLargeEnded)
)

// holdAll acquires all that a namespace can have.
func holdAll(t *testing.T, limit *inflight.Limit[string], namespace string, n int) (release func()) {
	t.Helper()
	var last func()
	for range n {
		release, ok := limit.TryAcquire(namespace)
		if !ok {
			t.Fatalf("namespace %s cannot have %d", namespace, n)
		}
		last = release
	}
	return last
}

type closeCounter struct {
	io.ReadCloser
	open *atomic.Int32
}

func (c closeCounter) Close() error {
	c.open.Add(-1)
	return c.ReadCloser.Close()
}

// counted returns a reading whose streams that are not closed are counted.
func counted(open *atomic.Int32, reading func(context.Context) (io.ReadCloser, error)) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		stream, err := reading(ctx)
		open.Add(1)
		return closeCounter{stream, open}, err
	}
}

// largeText is a log with outputs for which it needs a place.
var (
	largeValue = strings.Repeat("v", 40<<10)
	largeText  = "one\n" + output("a", "1") + output("large", largeValue) + "two\n"
)

func wantLarge(t *testing.T, result *logResult) {
	t.Helper()
	podWant(t, "outputs", result.outputs, map[string]string{"a": "1", "large": largeValue})
	podWant(t, "the last lines", strings.Join(result.tail, "|"), "one|two")
}

// A log with large outputs has no stream while it waits for a place. When there is one it is read again from its start, and followed.
func TestRunningLogWaitsForPlace(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		limits := newLogLimits()
		release := holdAll(t, limits.large.running, "ops", maxLargeRunningOfNamespace)
		var open atomic.Int32
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){
			counted(&open, hanging(largeText)), counted(&open, hanging(largeText)), counted(&open, text(largeText)),
		}}
		log, done := s.followWithin(t, "ops", limits)
		time.Sleep(time.Hour)
		synctest.Wait()
		podWant(t, "how it is read without a place", s.followed, []bool{true})
		podWant(t, "streams without a place", open.Load(), 0)
		podWant(t, "problem", log.whyUnread(), "") // of a container that runs it is not known whether it has printed all
		release()
		synctest.Wait()
		podWant(t, "how it is read with a place", s.followed, []bool{true, true})
		log.endPod()
		wantLarge(t, done())
		if _, ok := limits.large.running.TryAcquire("ops"); ok {
			t.Error("the log has given up its place before it is forgotten")
		}
		log.cancel()
		synctest.Wait()
		holdAll(t, limits.large.running, "ops", 1)
	})
}

// A log that has no place while its container runs has one afterwards, although other containers never end.
func TestEndedLogNeedsNoPlaceOfRunningOnes(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		limits := newLogLimits()
		holdAll(t, limits.large.running, "ops", maxLargeRunningOfNamespace)
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){hanging(largeText), text(largeText)}}
		log, done := s.followWithin(t, "ops", limits)
		synctest.Wait()
		log.end() // another container of the Pod may never end
		time.Sleep(time.Hour)
		synctest.Wait()
		podWant(t, "how it is read before the Pod has ended", s.followed, []bool{true})
		log.endPod()
		wantLarge(t, done())
		podWant(t, "how it is read", s.followed, []bool{true, false})
		log.cancel()
		synctest.Wait()
		holdAll(t, limits.large.ended, "ops", maxLargeEndedOfNamespace)
	})
}

func TestEndedLogWaitsForPlace(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		limits := newLogLimits()
		release := holdAll(t, limits.large.ended, "ops", maxLargeEndedOfNamespace)
		var open atomic.Int32
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){counted(&open, text(largeText))}}
		log, done := s.followWithin(t, "ops", limits)
		log.endPod()
		time.Sleep(time.Hour)
		synctest.Wait()
		podWant(t, "readings without a place", len(s.followed), 1)
		podWant(t, "streams without a place", open.Load(), 0)
		podWant(t, "why it waits", log.whyUnread(), "8 logs of ended Pods with outputs of more than 32 KiB are read at a time, 6 of them for the ActionSets of one namespace")
		release()
		wantLarge(t, done())
		podWant(t, "problem", log.whyUnread(), "")
	})
}

// If too many logs are followed, a log is read when its container has ended, or followed when another one is forgotten.
func TestLogsThatAreNotFollowed(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		limits := newLogLimits()
		release := holdAll(t, limits.logs.running, "ops", maxRunningOfNamespace)
		first := &logServer{readings: []func(context.Context) (io.ReadCloser, error){text(output("a", "1"))}}
		second := &logServer{readings: []func(context.Context) (io.ReadCloser, error){hanging(output("a", "2")), text(output("a", "2"))}}
		other := &logServer{readings: []func(context.Context) (io.ReadCloser, error){hanging("")}}
		log, done := first.followWithin(t, "ops", limits)
		synctest.Wait()
		secondLog, secondDone := second.followWithin(t, "ops", limits)
		other.followWithin(t, "other", limits)
		time.Sleep(time.Hour)
		synctest.Wait()
		podWant(t, "how the logs are read", [][]bool{first.followed, second.followed, other.followed}, [][]bool{nil, nil, {true}})
		podWant(t, "problem", log.whyUnread(), "")
		log.endPod()
		podWant(t, "outputs", done().outputs, map[string]string{"a": "1"})
		podWant(t, "how the first is read", first.followed, []bool{false})

		release()
		synctest.Wait()
		podWant(t, "how the second is read", second.followed, []bool{true})
		secondLog.endPod()
		podWant(t, "outputs", secondDone().outputs, map[string]string{"a": "2"})
		secondLog.cancel()
		synctest.Wait()
		holdAll(t, limits.logs.running, "ops", 1)
	})
}

// Logs of ended containers that were not followed are read in turn.
func TestEndedLogsInTurn(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		limits := newLogLimits()
		release := holdAll(t, limits.logs.ended, "ops", maxEndedOfNamespace)
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){text(output("a", "1"))}}
		holdAll(t, limits.logs.running, "ops", maxRunningOfNamespace)
		log, done := s.followWithin(t, "ops", limits)
		log.endPod()
		time.Sleep(time.Hour)
		synctest.Wait()
		podWant(t, "readings", len(s.followed), 0)
		podWant(t, "why it waits", log.whyUnread(), "100 logs of ended Pods are read at a time, 75 of them for the ActionSets of one namespace")
		release()
		podWant(t, "outputs", done().outputs, map[string]string{"a": "1"})
		log.cancel()
		synctest.Wait()
		holdAll(t, limits.logs.ended, "ops", 1)
	})
}

// A log is in memory until its phase is cancelled, which is when its end is recorded.
func TestLogOfEndedPhaseIsForgotten(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		c.print(MainContainer, largeText)
		c.update(podRunning(MainContainer))
		call.poll(p)
		c.update(podExited(0))
		podWantState(t, "the end", call.finish(p), phase.Succeeded)
		holdAll(t, p.logLimits.logs.running, testID.Namespace, maxRunningOfNamespace-1)
		holdAll(t, p.logLimits.large.running, testID.Namespace, maxLargeRunningOfNamespace-1)
		for what, limit := range map[string]*inflight.Limit[string]{"turn": p.logLimits.logs.running, "place": p.logLimits.large.running} {
			if _, ok := limit.TryAcquire(testID.Namespace); ok {
				t.Errorf("the log has given up its %s before its phase is cancelled", what)
			}
		}
		call.cancel(p)
		holdAll(t, p.logLimits.logs.running, testID.Namespace, 1)
		holdAll(t, p.logLimits.large.running, testID.Namespace, 1)
	})
}
