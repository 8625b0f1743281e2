// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// faultTime is how long a fault lasts.
const faultTime = 8 * time.Second

// Faults of the network between the operator and the API server, and errors of an overloaded API server.
func TestFaultsOfNetwork(t *testing.T) {
	t.Parallel()
	runFaults(t, testcluster.Shared(t), []string{
		"watches cut every second",
		"watches expired",
		"bursts of 429",
		"bursts of 429 with a long Retry-After",
		"bursts of 500",
		"latency",
		"a frozen connection",
		"refused connections",
	}, map[string]fault{
		"watches cut every second": func(f *faults, w *work) {
			var cut atomic.Int64
			stop := every(time.Second, func() { cut.Add(int64(f.operator.proxy.CutWatches())) })
			w.do(faultTime)
			f.eventually(func() string {
				if want := int64(faultTime / time.Second); cut.Load() < want {
					return fmt.Sprintf("cut %d watches, want %d: nothing is tested", cut.Load(), want)
				}
				return ""
			})
			stop()
			f.Logf("cut %d watches", cut.Load())
		},
		// After a long interruption a watch cannot continue from its last version, and has to start with a list.
		"watches expired": func(f *faults, w *work) {
			begin := time.Now()
			going := func(r faultproxy.Request) bool {
				return r.Verb == "watch" && r.Query.Get("sendInitialEvents") != "true"
			}
			end := f.operator.proxy.Answer(going, apierrors.NewResourceExpired("too old resource version"))
			stop := every(2*time.Second, func() { f.operator.proxy.CutWatches() })
			w.do(faultTime)
			f.awaitStruck(begin, answeredByProxy(http.StatusGone), 2)
			stop()
			end()
		},
		"bursts of 429": bursts(apierrors.NewTooManyRequests("the server is overloaded", 0)),
		// Load balancers ask for such pauses: the operator tries again earlier.
		"bursts of 429 with a long Retry-After": bursts(apierrors.NewTooManyRequests("the server is overloaded", 600)),
		"bursts of 500":                         bursts(apierrors.NewInternalError(errors.New("the server is broken"))),
		"latency": func(f *faults, w *work) {
			f.operator.proxy.SetLatency(2 * time.Second)
			begin := time.Now()
			w.do(faultTime)
			// The operator continues to work, slowly.
			f.awaitStruck(begin, func(entry faultproxy.Entry) bool { return entry.TookEffect() && notOnLease(entry) }, 2*each)
			f.operator.proxy.SetLatency(0)
		},
		// Connections stay open, but no data passes.
		"a frozen connection": func(f *faults, w *work) {
			begin := time.Now()
			f.operator.proxy.Freeze()
			w.do(faultTime)
			passed := f.since(begin.Add(time.Second), func(faultproxy.Entry) bool { return true })
			f.operator.proxy.Thaw()
			if len(passed) > 0 {
				f.Errorf("got %s while the connection was frozen, want no request", passed[0])
			}
		},
		"refused connections": func(f *faults, w *work) {
			f.operator.proxy.Refuse()
			w.do(faultTime)
			if err := f.operator.proxy.Accept(); err != nil {
				f.Fatal(err)
			}
		},
	})
}

// bursts answers all requests with an error, for a second at a time with half a second in between. It cuts the watches at the beginning of
// each burst, because it does not affect open watches.
func bursts(of *apierrors.StatusError) fault {
	return func(f *faults, w *work) {
		begin := time.Now()
		end := func() {}
		on := false
		stop := every(500*time.Millisecond, func() {
			phase := int(time.Since(begin)/(500*time.Millisecond)) % 3
			switch {
			case phase != 0 && !on:
				end, on = f.operator.proxy.Answer(faultproxy.All, of), true
				f.operator.proxy.CutWatches()
			case phase == 0 && on:
				end()
				on = false
			}
		})
		w.do(faultTime)
		f.awaitStruck(begin, answeredByProxy(int(of.Status().Code)), 2*each)
		stop()
		end()
	}
}

func answeredByProxy(code int) func(faultproxy.Entry) bool {
	return func(entry faultproxy.Entry) bool { return entry.Faked && entry.Code == code }
}

// every calls a function at this interval until stop is called. stop returns when no call is running.
func every(interval time.Duration, call func()) (stop func()) {
	stopping, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				call()
			case <-stopping:
				return
			}
		}
	}()
	return func() {
		close(stopping)
		<-ended
	}
}
