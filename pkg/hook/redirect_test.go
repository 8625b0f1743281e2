// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// elsewhere is a server that no hook may be redirected to. It counts who comes.
func elsewhere(t *testing.T) (address string, came *atomic.Int32) {
	came = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came.Add(1)
		_, _ = io.WriteString(w, `{"children":[],"status":{"stolen":"internal"}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, came
}

func TestFollowedRedirect(t *testing.T) {
	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		config := Config{
			Access: Access{Authorization: &Authorization{SecretRef: KeyRef{"ns", "token", "token"}}},
			Source: fakeSource{secrets: map[string]map[string][]byte{"ns/token": {"token": []byte("abc")}}},
		}
		hook := serve(t, Options{}, config, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer abc" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s with the header %v", r.Method, r.URL, r.Header)
			}
			switch r.URL.Path {
			case "/sync":
				http.Redirect(w, r, "/there", code)
			case "/there":
				http.Redirect(w, r, "http://"+r.Host+"/here?a=b", code)
			default:
				_, _ = io.Copy(w, r.Body)
			}
		})
		answer, err := hook.Call(t.Context(), "uid", emptyRequest())
		if err != nil || string(answer.Body) != `{"controller":{},"parent":{}}` {
			t.Errorf("answer is %+v, error %v", answer, err)
		}
	}
}

func TestRefusedRedirect(t *testing.T) {
	other, came := elsewhere(t)
	otherHost := strings.TrimPrefix(other, "http://")
	for name, test := range map[string]struct {
		code           int
		location, want string
	}{
		"301 on the same server":  {301, "/there", "/there, which is not followed"},
		"302 on the same server":  {302, "/there", "/there, which is not followed"},
		"303 on the same server":  {303, "/there", "/there, which is not followed"},
		"302 to another port":     {302, other + "/secret?token=abc#x", other + "/secret, which is not followed"},
		"307 to another port":     {307, other + "/secret?token=abc", other + "/secret, which is not followed (the Location is elsewhere)"},
		"308 to another port":     {308, other, other + ", which is not followed"},
		"308 without a scheme":    {308, "//" + otherHost + "/a", other + "/a, which is not followed"},
		"307 to another host":     {307, "http://metadata.internal/", "http://metadata.internal/, which is not followed"},
		"307 to HTTPS":            {307, "https://SELF/", "which is not followed"},
		"307 to another scheme":   {307, "file:///etc/passwd", "file:///etc/passwd, which is not followed"},
		"307 to no address":       {307, "mailto:a@b", "which is not followed"},
		"307 with credentials":    {307, "http://user:secret@SELF/there", "/there, which is not followed (the Location brings credentials of its own)"},
		"307 to what is no URL":   {307, "http://[", "an invalid Location, which is not followed"},
		"307 to what is too long": {307, other + "/" + strings.Repeat("x", 5000), "xxx..., which is not followed"},
		"307 with control bytes":  {307, other + "/a%0ab", other + "/a%0ab, which is not followed"},
		"307 without end":         {307, "/sync", "/sync, which is not followed (more redirects than are followed for one call)"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			hook := serve(t, Options{}, Config{}, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				w.Header().Set("Location", strings.ReplaceAll(test.location, "SELF", r.Host))
				w.WriteHeader(test.code)
				_, _ = io.WriteString(w, "the body of a redirect")
			})
			for range breakerThreshold + 1 { // it is an answer, and never suspends the hook
				e := wantReason(t, call(t, hook), ReasonStatus, test.want, "status code "+strconv.Itoa(test.code))
				if e.StatusCode != test.code || len(Message(e)) > 700 {
					t.Errorf("the error has the status code %d and %d bytes", e.StatusCode, len(Message(e)))
				}
				for _, secret := range []string{"token", "secret@", "user", "the body", "#x"} {
					if strings.Contains(Message(e), secret) {
						t.Errorf("the error %q shows %q", Message(e), secret)
					}
				}
			}
			if n := calls.Load(); n > (breakerThreshold+1)*(maxRedirects+1) {
				t.Errorf("the hook was called %d times", n)
			}
		})
	}
	if n := came.Load(); n > 0 {
		t.Errorf("the other server was called %d times", n)
	}
}

func TestAnswerBehindRedirect(t *testing.T) {
	reply := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) }
	hook := serve(t, Options{}, Config{ETag: &ETag{}}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sync" {
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
			return
		}
		reply(w, r)
	})
	reply = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, `{"status":{}}`)
	}
	if err := call(t, hook); err != nil {
		t.Fatal(err)
	}
	reply = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != `"1"` {
			t.Errorf("the ETag is not offered behind the redirect: %v", r.Header)
		}
		w.WriteHeader(http.StatusNotModified)
	}
	answer, err := hook.Call(t.Context(), "uid", emptyRequest())
	if err != nil || !answer.NotModified || string(answer.Body) != `{"status":{}}` {
		t.Errorf("answer is %+v, error %v", answer, err)
	}
	reply = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	if e := wantReason(t, call(t, hook), ReasonTooManyRequests); e.RetryAfter != 7*time.Second {
		t.Errorf("to be retried after %s, want 7 s", e.RetryAfter)
	}
	reply = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	for range breakerThreshold {
		wantReason(t, call(t, hook), ReasonStatus)
	}
	wantReason(t, call(t, hook), ReasonSuspended)
}
