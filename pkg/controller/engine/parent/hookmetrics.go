// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Events in the life of a connection that are timed.
const (
	eventDNSStart = "dns_start"
	eventDNSDone  = "dns_done"
	eventTLSStart = "tls_handshake_start"
	eventTLSDone  = "tls_handshake_done"
)

// hookMetrics are those of the hooks of one phase. Names, labels and buckets are Metacontroller's, for the sake of dashboards and
// alerts that exist.
type hookMetrics struct {
	requests           *metrics.CounterVec
	duration, dns, tls *metrics.HistogramVec
	inFlight           *metrics.GaugeVec
}

var hookMetricsOf = map[phase]*hookMetrics{
	phaseSync: newHookMetrics(phaseSync), phaseFinalize: newHookMetrics(phaseFinalize), phaseCustomize: newHookMetrics(phaseCustomize),
}

func newHookMetrics(called phase) *hookMetrics {
	const namespace = "metacontroller"
	of, subsystem := " of the "+string(called)+" hook.", string(called)
	labels := func(more ...string) []string {
		return append([]string{"controller_name", "controller_type", "url"}, more...)
	}
	histogram := func(name, help string, buckets []float64, label string) *metrics.HistogramVec {
		return metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA,
		}, labels(label))
	}
	m := &hookMetrics{
		requests: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Number of answers" + of + " Calls that had none are not counted.", StabilityLevel: metrics.ALPHA,
		}, labels("code", "method")),
		duration: histogram("request_duration_histogram_seconds", "Time until the answer"+of, metrics.DefBuckets, "method"),
		dns: histogram("dns_duration_histogram_seconds", "Time from the start of a call until its host was asked for in the DNS, and found,"+of,
			[]float64{.005, .01, .025, .05}, "event"),
		tls: histogram("tls_duration_histogram_seconds", "Time from the start of a call until the TLS handshake began, and had succeeded,"+of,
			[]float64{.05, .1, .25, .5}, "event"),
		inFlight: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "in_flight_requests", Help: "Number of calls under way" + of, StabilityLevel: metrics.ALPHA,
		}, labels()),
	}
	legacyregistry.MustRegister(m.requests, m.duration, m.dns, m.tls, m.inFlight)
	return m
}

// hookKey identifies the series of one hook.
type hookKey struct {
	kind       Kind
	controller string
	called     phase
	url        string
}

// hookSeries are the series of one hook. What a call needs of them is looked up once, and so a call allocates no labels.
type hookSeries struct {
	key      hookKey
	of       *hookMetrics
	inFlight metrics.GaugeMetric
	users    int // guarded by hookSeriesMu

	mu       sync.Mutex
	gone     bool // nothing is made any more: a call may outlive the hook
	answers  map[answerKind]metrics.CounterMetric
	duration map[string]metrics.ObserverMetric // by method
	events   map[string]metrics.ObserverMetric
}

// answerKind is what answers are counted by.
type answerKind struct {
	code   int
	method string
}

var (
	hookSeriesMu sync.Mutex
	knownSeries  = map[hookKey]*hookSeries{}
)

// instrument returns what measures the calls of a hook of a Declaration, and what ends its series. Hooks of the same kind, name, phase
// and URL, as while one takes the place of the other, share the series until the last one is forgotten.
func instrument(kind Kind, name string, called phase, url string) (wrap func(http.RoundTripper) http.RoundTripper, forget func()) {
	hookSeriesMu.Lock()
	defer hookSeriesMu.Unlock()
	key := hookKey{kind, name, called, url}
	series := knownSeries[key]
	if series == nil {
		of := hookMetricsOf[called]
		series = &hookSeries{key: key, of: of, inFlight: of.inFlight.WithLabelValues(key.labels()...),
			answers: map[answerKind]metrics.CounterMetric{}, duration: map[string]metrics.ObserverMetric{}, events: map[string]metrics.ObserverMetric{}}
		knownSeries[key] = series
	}
	series.users++
	wrap = func(next http.RoundTripper) http.RoundTripper { return &measuredTransport{next, series} }
	return wrap, sync.OnceFunc(series.forget)
}

func (k hookKey) labels(more ...string) []string {
	return append([]string{k.controller, string(k.kind), k.url}, more...)
}

// forget removes the series with their last user.
func (s *hookSeries) forget() {
	hookSeriesMu.Lock()
	defer hookSeriesMu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	delete(knownSeries, s.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	labels := map[string]string{"controller_name": s.key.controller, "controller_type": string(s.key.kind), "url": s.key.url}
	s.of.requests.DeletePartialMatch(labels)
	s.of.duration.DeletePartialMatch(labels)
	s.of.dns.DeletePartialMatch(labels)
	s.of.tls.DeletePartialMatch(labels)
	s.of.inFlight.DeletePartialMatch(labels)
}

// answered counts an answer.
func (s *hookSeries) answered(code int, method string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	answers, duration := s.answers[answerKind{code, method}], s.duration[method]
	if answers == nil {
		label := strings.ToLower(method)
		answers = s.of.requests.WithLabelValues(s.key.labels(strconv.Itoa(code), label)...)
		duration = s.of.duration.WithLabelValues(s.key.labels(label)...)
		s.answers[answerKind{code, method}], s.duration[method] = answers, duration
	}
	answers.Inc()
	duration.Observe(took.Seconds())
}

// observe an event in the life of a connection.
func (s *hookSeries) observe(of *metrics.HistogramVec, event string, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	series := s.events[event]
	if series == nil {
		series = of.WithLabelValues(s.key.labels(event)...)
		s.events[event] = series
	}
	series.Observe(since.Seconds())
}

// measuredTransport is a RoundTripper whose calls are measured.
type measuredTransport struct {
	http.RoundTripper
	series *hookSeries
}

var _ utilnet.RoundTripperWrapper = &measuredTransport{}

// RoundTrip implements http.RoundTripper.
func (m *measuredTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	s, start := m.series, time.Now()
	s.inFlight.Inc()
	defer s.inFlight.Dec()
	traced := httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { s.observe(s.of.dns, eventDNSStart, time.Since(start)) },
		DNSDone:           func(httptrace.DNSDoneInfo) { s.observe(s.of.dns, eventDNSDone, time.Since(start)) },
		TLSHandshakeStart: func() { s.observe(s.of.tls, eventTLSStart, time.Since(start)) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil {
				s.observe(s.of.tls, eventTLSDone, time.Since(start))
			}
		},
	})
	response, err := m.RoundTripper.RoundTrip(request.WithContext(traced))
	if err == nil {
		s.answered(response.StatusCode, request.Method, time.Since(start))
	}
	return response, err
}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (m *measuredTransport) WrappedRoundTripper() http.RoundTripper { return m.RoundTripper }

// CloseIdleConnections is what http.Client asks for.
func (m *measuredTransport) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(m.RoundTripper) }
