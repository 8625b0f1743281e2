// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"millwright.dev/pkg/hook"
)

// roundTripper answers without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answerWith returns the answer of a hook, without a network.
func answerWith(code int) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	}
}

// seriesOf are the metrics of hooks whose controller has that name, as "name{labels} value": of histograms the number of observations, and
// of those of one second and more their sum.
func seriesOf(t testing.TB, controller string) (series []string) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if !strings.HasPrefix(family.GetName(), "metacontroller_") || !testutil.LabelsMatch(metric, map[string]string{"controller_name": controller}) {
				continue
			}
			var labels []string
			for _, pair := range metric.GetLabel() {
				if pair.GetName() != "controller_name" {
					labels = append(labels, pair.GetName()+"="+pair.GetValue())
				}
			}
			value := fmt.Sprint(metric.GetCounter().GetValue() + metric.GetGauge().GetValue())
			if histogram := metric.GetHistogram(); histogram != nil {
				value = fmt.Sprint(histogram.GetSampleCount())
				if sum := histogram.GetSampleSum(); sum >= 1 {
					value += fmt.Sprintf(" of %vs", sum)
				}
			}
			series = append(series, family.GetName()+"{"+strings.Join(labels, ",")+"} "+value)
		}
	}
	slices.Sort(series)
	return series
}

func wantSeries(t *testing.T, controller string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, seriesOf(t, controller)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// send sends a request through a measured transport.
func send(t *testing.T, by http.RoundTripper, method, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Error(err)
		return
	}
	if response, err := by.RoundTrip(request); err == nil {
		_ = response.Body.Close()
	}
}

func TestCallMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const url = "http://svc.ns:80/sync"
		wrap, forget := instrument(Composite, "measured", phaseSync, url)
		defer forget()
		inFlight := "metacontroller_sync_in_flight_requests{controller_type=CompositeController,url=http://svc.ns:80/sync} "
		wantSeries(t, "measured", inFlight+"0")
		go send(t, wrap(roundTripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return answerWith(http.StatusOK)(r)
		})), http.MethodPost, url)
		synctest.Wait()
		wantSeries(t, "measured", inFlight+"1")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		send(t, wrap(answerWith(http.StatusInternalServerError)), http.MethodPost, url)
		send(t, wrap(answerWith(http.StatusInternalServerError)), http.MethodPost, url)
		send(t, wrap(answerWith(http.StatusOK)), http.MethodGet, url)
		send(t, wrap(roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") })), http.MethodPost, url)
		wantSeries(t, "measured", inFlight+"0",
			"metacontroller_sync_request_duration_histogram_seconds{controller_type=CompositeController,method=get,url=http://svc.ns:80/sync} 1",
			"metacontroller_sync_request_duration_histogram_seconds{controller_type=CompositeController,method=post,url=http://svc.ns:80/sync} 3 of 3s",
			"metacontroller_sync_requests_total{code=200,controller_type=CompositeController,method=get,url=http://svc.ns:80/sync} 1",
			"metacontroller_sync_requests_total{code=200,controller_type=CompositeController,method=post,url=http://svc.ns:80/sync} 1",
			"metacontroller_sync_requests_total{code=500,controller_type=CompositeController,method=post,url=http://svc.ns:80/sync} 2",
		)
	})
}

func TestConnectionMetrics(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	transport := server.Client().Transport.(*http.Transport)
	transport.TLSClientConfig.ServerName = "example.com" // which is in the certificate
	wrap, forget := instrument(Composite, "traced", phaseFinalize, url)
	defer forget()
	for range 3 {
		send(t, wrap(transport), http.MethodPost, url)
	}
	of := "controller_type=CompositeController,event=%s,url=" + url + "} 1"
	var traced []string
	for _, series := range seriesOf(t, "traced") {
		if strings.Contains(series, "event=") {
			traced = append(traced, series)
		}
	}
	if diff := cmp.Diff([]string{
		"metacontroller_finalize_dns_duration_histogram_seconds{" + fmt.Sprintf(of, "dns_done"),
		"metacontroller_finalize_dns_duration_histogram_seconds{" + fmt.Sprintf(of, "dns_start"),
		"metacontroller_finalize_tls_duration_histogram_seconds{" + fmt.Sprintf(of, "tls_handshake_done"),
		"metacontroller_finalize_tls_duration_histogram_seconds{" + fmt.Sprintf(of, "tls_handshake_start"),
	}, traced); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestMetricsBuckets(t *testing.T) {
	wrap, forget := instrument(Composite, "buckets", phaseSync, "http://hook/")
	defer forget()
	send(t, wrap(answerWith(http.StatusOK)), http.MethodPost, "http://hook/")
	key := hookKey{Composite, "buckets", phaseSync, "http://hook/"}
	knownSeries[key].observe(hookMetricsOf[phaseSync].dns, eventDNSDone, 0)
	knownSeries[key].observe(hookMetricsOf[phaseSync].tls, eventTLSDone, 0)
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if testutil.LabelsMatch(metric, map[string]string{"controller_name": "buckets"}) {
				for _, bucket := range metric.GetHistogram().GetBucket() {
					got[family.GetName()] = append(got[family.GetName()], bucket.GetUpperBound())
				}
			}
		}
	}
	if diff := cmp.Diff(map[string][]float64{
		"metacontroller_sync_request_duration_histogram_seconds": {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		"metacontroller_sync_dns_duration_histogram_seconds":     {.005, .01, .025, .05},
		"metacontroller_sync_tls_duration_histogram_seconds":     {.05, .1, .25, .5},
	}, got); diff != "" {
		t.Errorf("buckets (-want +got):\n%s", diff)
	}
}

func TestHookMetricsAreRemoved(t *testing.T) {
	const url, other = "http://hook/", "http://other/"
	old, forgetOld := instrument(Composite, "gone", phaseSync, url)
	send(t, old(answerWith(http.StatusOK)), http.MethodPost, url)
	replacement, forgetReplacement := instrument(Composite, "gone", phaseSync, url)
	for _, kept := range []struct {
		controller string
		called     phase
		url        string
	}{{"gone", phaseFinalize, url}, {"gone", phaseSync, other}, {"stays", phaseSync, url}} {
		wrap, forget := instrument(Composite, kept.controller, kept.called, kept.url)
		defer forget()
		send(t, wrap(answerWith(http.StatusOK)), http.MethodPost, kept.url)
	}
	isOfTheHook := func(series string) bool {
		return strings.HasPrefix(series, "metacontroller_sync_") && strings.Contains(series, "url="+url)
	}
	others := func() []string {
		return slices.Concat(slices.DeleteFunc(seriesOf(t, "gone"), isOfTheHook), seriesOf(t, "stays"))
	}
	before := others()
	const total = "metacontroller_sync_requests_total{code=200,controller_type=CompositeController,method=post,url=http://hook/} "

	forgetOld()
	forgetOld() // which counts once
	send(t, replacement(answerWith(http.StatusOK)), http.MethodPost, url)
	if got := seriesOf(t, "gone"); !slices.Contains(got, total+"2") {
		t.Errorf("series of a hook that took the place of another: %s, want %s2", strings.Join(got, "\n"), total)
	}

	done := make(chan struct{})
	late := roundTripper(func(r *http.Request) (*http.Response, error) {
		forgetReplacement()
		close(done)
		return answerWith(http.StatusTeapot)(r)
	})
	send(t, replacement(late), http.MethodPost, url)
	<-done
	send(t, replacement(answerWith(http.StatusOK)), http.MethodPost, url)
	for _, series := range seriesOf(t, "gone") {
		if isOfTheHook(series) {
			t.Errorf("left behind, though the hook is gone: %s", series)
		}
	}
	if diff := cmp.Diff(before, others()); diff != "" {
		t.Errorf("series of others (-want +got):\n%s", diff)
	}

	again, forgetAgain := instrument(Composite, "gone", phaseSync, url)
	defer forgetAgain()
	send(t, again(answerWith(http.StatusOK)), http.MethodPost, url)
	if got := seriesOf(t, "gone"); !slices.Contains(got, total+"1") {
		t.Errorf("series of a hook that has come back: %s, want %s1", strings.Join(got, "\n"), total)
	}
}

func TestMeasuredTransportUnwraps(t *testing.T) {
	wrap, forget := instrument(Composite, "wrapped", phaseSync, "http://hook/")
	defer forget()
	inner := &closableTransport{RoundTripper: answerWith(http.StatusOK)}
	outer := wrap(inner)
	if wrapper, ok := outer.(utilnet.RoundTripperWrapper); !ok || wrapper.WrappedRoundTripper() != http.RoundTripper(inner) {
		t.Errorf("what is measured cannot be got from %T", outer)
	}
	(&http.Client{Transport: outer}).CloseIdleConnections()
	if !inner.closed {
		t.Error("idle connections are not closed")
	}
}

type closableTransport struct {
	http.RoundTripper
	closed bool
}

func (c *closableTransport) CloseIdleConnections() { c.closed = true }

func TestMetricsURL(t *testing.T) {
	config := hook.Config{Phase: "sync", URL: "http://user:s3cret@hook/sync?token=s3cret"}
	wrap, forget := instrument(Composite, "shown", phaseSync, config.Address())
	defer forget()
	config.Instrument = func(http.RoundTripper) http.RoundTripper { return wrap(answerWith(http.StatusOK)) }
	h, err := hook.NewClient(hook.Options{}).NewHook(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	answered, err := h.Call(t.Context(), "uid", hook.NewCustomizeRequest(hook.CustomizeRequest{Controller: "{}", Parent: "{}"}))
	if err != nil {
		t.Fatal(err)
	}
	answered.Release()
	all := strings.Join(seriesOf(t, "shown"), "\n")
	if want := "requests_total{code=200,controller_type=CompositeController,method=post,url=http://hook/sync} 1"; !strings.Contains(all, want) || strings.Contains(all, "s3cret") {
		t.Errorf("series\n%s\nwant %s", all, want)
	}
}

func BenchmarkMeasuredCall(b *testing.B) {
	wrap, forget := instrument(Composite, "bench", phaseSync, "http://hook/")
	defer forget()
	response := &http.Response{StatusCode: http.StatusOK}
	bare := roundTripper(func(*http.Request) (*http.Response, error) { return response, nil })
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://hook/", nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, by := range map[string]http.RoundTripper{"bare": bare, "measured": wrap(bare)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := by.RoundTrip(request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
