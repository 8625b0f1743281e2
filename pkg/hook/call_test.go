// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// serve makes a hook that is served by the handler.
func serve(t *testing.T, options Options, config Config, handler http.HandlerFunc) *Hook {
	t.Helper()
	return serveWith(t, NewClient(options), config, handler)
}

func serveWith(t *testing.T, client *Client, config Config, handler http.HandlerFunc) *Hook {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config.URL, config.Phase = server.URL+"/sync", "sync"
	hook, err := client.NewHook(testContext(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hook.Close)
	return hook
}

func TestRequestFormat(t *testing.T) {
	type seen struct{ method, path, contentType, agent, key, body string }
	got := make(chan seen, 1)
	hook := serve(t, Options{}, Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, key := r.Header["Idempotency-Key"]
		got <- seen{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.UserAgent(), strconv.FormatBool(key), string(body)}
		if int(r.ContentLength) != len(body) {
			t.Errorf("Content-Length is %d, want %d", r.ContentLength, len(body))
		}
		_, _ = io.WriteString(w, `{}`)
	})
	if err := call(t, hook); err != nil {
		t.Fatal(err)
	}
	want := seen{"POST", "/sync", "application/json", "Go-http-client/1.1", "false", `{"controller":{},"parent":{}}`}
	if s := <-got; s != want {
		t.Errorf("hook saw %+v, want %+v", s, want)
	}
}

func TestOnlyAStatusOf200IsSuccess(t *testing.T) {
	for _, code := range []int{201, 204, 304, 400, 404, 412, 500} {
		hook := serve(t, Options{}, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			if code != 204 && code != 304 {
				_, _ = io.WriteString(w, "because "+strings.Repeat("x", 10_000))
			}
		})
		e := wantReason(t, call(t, hook), ReasonStatus, "unsupported status code: "+strconv.Itoa(code))
		if e.StatusCode != code || strings.Contains(e.Error(), "because") {
			t.Errorf("error %q of code %d, want one of code %d without the body, which is not for logs", e, e.StatusCode, code)
		}
	}
}

func TestTooManyRequests(t *testing.T) {
	for header, want := range map[string]time.Duration{"30": 30 * time.Second, "": 0, "yesterday": 0} {
		hook := serve(t, Options{}, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		if e := wantReason(t, call(t, hook), ReasonTooManyRequests); e.RetryAfter != want {
			t.Errorf("with Retry-After %q to be retried after %s, want %s", header, e.RetryAfter, want)
		}
	}
}

func TestTheTimeoutIsForTheWholeExchange(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			<-r.Context().Done()
		},
		"half an answer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			_, _ = io.WriteString(w, `{"status":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := 50 * time.Millisecond
			wantReason(t, call(t, serve(t, Options{}, Config{Timeout: &timeout}, handler)), ReasonUnreachable, "Client.Timeout")
		})
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hook := serve(t, Options{}, Config{}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		cancel()
		<-r.Context().Done()
	})
	if _, err := hook.Call(ctx, "uid", emptyRequest()); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want the end of the context", err)
	}
}

func TestABodyThatIsCutOffIsNoAnswer(t *testing.T) {
	hook := serve(t, Options{}, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{}`)
	})
	wantReason(t, call(t, hook), ReasonUnreachable, "can't read response body: ")
}

func TestTooLargeBody(t *testing.T) {
	const limit = 1000
	body := func(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }
	for name, send := range map[string]func(w http.ResponseWriter, body string){
		"with its length": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = io.WriteString(w, body)
		},
		"in chunks": func(w http.ResponseWriter, body string) {
			for _, c := range body {
				_, _ = io.WriteString(w, string(c))
				_ = http.NewResponseController(w).Flush()
			}
		},
		"compressed": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, body)
			_ = z.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			size := limit
			hook := serve(t, Options{MaxBody: limit}, Config{}, func(w http.ResponseWriter, _ *http.Request) { send(w, body(size)) })
			if answer, err := hook.Call(t.Context(), "uid", emptyRequest()); err != nil || string(answer.Body) != body(limit) {
				t.Errorf("a body at the limit: %v", err)
			}
			size++
			wantReason(t, call(t, hook), ReasonTooLarge, "1000 bytes")
		})
	}
}

func TestEqualBodiesHaveEqualSumsHoweverTheyCome(t *testing.T) {
	text, chunked := strings.Repeat("some text ", 5000), false
	hook := serve(t, Options{}, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		for i := range len(text) {
			_, _ = io.WriteString(w, text[i:i+1])
			if chunked && i%1001 == 0 {
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	sum := func() uint64 {
		answer, err := hook.Call(t.Context(), "uid", emptyRequest())
		if err != nil || string(answer.Body) != text {
			t.Fatalf("body came wrong: %v", err)
		}
		return answer.Sum
	}
	first := sum()
	chunked = true
	if second := sum(); second != first {
		t.Errorf("sums %d and %d of one body", first, second)
	}
	text = text[1:]
	if third := sum(); third == first {
		t.Error("another body has the same sum")
	}
}

func TestMissingClientCertificate(t *testing.T) {
	for _, text := range []string{"remote error: tls: certificate required", "http2: client conn could not be established"} {
		fail := answering(func(*http.Request) (*http.Response, error) { return nil, errors.New(text) })
		wantReason(t, call(t, newTestHook(t, Config{URL: "https://hook/", Instrument: fail})), ReasonUnreachable, text, "the controller has no clientTLS for it")
	}
}

func TestAnErrorBodyDoesNotCostTheConnection(t *testing.T) {
	addresses := map[string]bool{}
	hook := serve(t, Options{}, Config{}, func(w http.ResponseWriter, r *http.Request) {
		addresses[r.RemoteAddr] = true
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, strings.Repeat("x", 30_000))
	})
	for range 3 {
		wantReason(t, call(t, hook), ReasonStatus)
	}
	if len(addresses) != 1 {
		t.Errorf("%d connections for three calls, want 1", len(addresses))
	}
}

func TestAnnouncedTooLargeBodyIsNotRead(t *testing.T) {
	announced := int64(1 << 40)
	hook := newTestHook(t, Config{URL: "http://hook/", Instrument: answering(func(r *http.Request) (*http.Response, error) {
		body := io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errors.New("read on"))))
		return &http.Response{StatusCode: http.StatusOK, Body: body, ContentLength: announced, Request: r}, nil
	})})
	wantReason(t, call(t, hook), ReasonTooLarge)
	announced = hook.client.maxBody
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wantReason(t, call(t, hook), ReasonUnreachable, "read on")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("a body of which one byte came took %d bytes", took)
	}
}

func TestReleasedMemoryIsReused(t *testing.T) {
	hook := serve(t, Options{}, Config{ETag: &ETag{}}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("ETag", "1")
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(body)
	})
	ask := func(key, text string) *Answer {
		answer, err := hook.Call(t.Context(), key, NewCustomizeRequest(CustomizeRequest{Controller: `{}`, Parent: strconv.Quote(text)}))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	body := func(text string) string { return `{"controller":{},"parent":` + strconv.Quote(text) + `}` }
	for i := range 20 {
		key := strconv.Itoa(i)
		used, released := ask(key, "used "+key), ask("other "+key, strings.Repeat("x", 1000*i))
		released.Release()
		released.Release()
		if ask("third "+key, "y"); string(used.Body) != body("used "+key) {
			t.Fatalf("the body in use has become %.100s", used.Body)
		}
		again := ask("other "+key, "unsaid")
		if !again.NotModified || string(again.Body) != body(strings.Repeat("x", 1000*i)) {
			t.Fatalf("what is kept for a 304 has become %.100s", again.Body)
		}
		again.Release()
		if again = ask("other "+key, "unsaid"); string(again.Body) != body(strings.Repeat("x", 1000*i)) {
			t.Fatalf("what is kept for a 304 has become %.100s", again.Body)
		}
	}
}

// The answer is as last time: what comes of it is a sum to be compared.
func BenchmarkCallWith100ChildrenAndTheSameAnswer(b *testing.B) {
	request, _ := bigRequest(100)
	body, buffer := bigAnswer(100), make([]byte, 32<<10)
	hook := newTestHook(b, Config{URL: "http://hook/", Instrument: answering(func(r *http.Request) (*http.Response, error) {
		for {
			if _, err := r.Body.Read(buffer); err != nil {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
			}
		}
	})})
	b.SetBytes(int64(2 * len(body)))
	b.ReportAllocs()
	for b.Loop() {
		answer, err := hook.Call(b.Context(), "uid", NewCompositeRequest(V1, request))
		if err != nil {
			b.Fatal(err)
		}
		answer.Release()
	}
}

// The query of a URL, and its user, may be secrets: they are sent, and are in no message.
func TestMessagesHaveNoQuery(t *testing.T) {
	write := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc // nil: nothing listens
		reason  Reason
	}{
		"refused connection": {nil, ReasonUnreachable},
		"lost connection":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ReasonUnreachable},
		"no answer":          {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() }, ReasonUnreachable},
		"another status":     {write(http.StatusInternalServerError, ""), ReasonStatus},
		"too many requests":  {write(http.StatusTooManyRequests, ""), ReasonTooManyRequests},
		"too large":          {write(http.StatusOK, strings.Repeat(" ", 2<<20)), ReasonTooLarge},
		"another address":    {http.RedirectHandler("http://127.0.0.1:1/?token=s3cret", http.StatusTemporaryRedirect).ServeHTTP, ReasonStatus},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan string, 10)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, password, _ := r.BasicAuth()
				sent <- password + r.URL.Query().Get("token")
				test.handler(w, r)
			}))
			defer server.Close()
			config := Config{Phase: "sync", URL: strings.Replace(server.URL, "http://", "http://me:s3cret@", 1) + "/sync?token=s3cret"}
			if name == "no answer" {
				config.Timeout = new(20 * time.Millisecond)
			}
			hook, err := NewClient(Options{MaxBody: 1 << 20}).NewHook(testContext(t), config)
			if err != nil {
				t.Fatal(err)
			}
			defer hook.Close()
			if test.handler == nil {
				server.Close()
			}
			for range breakerThreshold + 1 { // in the end the hook is not called for a while
				err := call(t, hook)
				if e, ok := errors.AsType[*Error](err); !ok || e.Reason != test.reason && e.Reason != ReasonSuspended {
					t.Fatalf("got %v, want the reason %s", err, test.reason)
				}
				text := Message(err)
				names := text == "unsupported status code: 500" || strings.Contains(text, server.URL+"/sync")
				if !names || strings.Contains(text, "s3cret") || strings.Contains(text, "me:") {
					t.Errorf("the message is %q", text)
				}
			}
			if test.handler != nil && <-sent != "s3crets3cret" {
				t.Error("the credentials or the query were not sent")
			}
		})
	}
}
