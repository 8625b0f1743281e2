// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// fakeSource has the data of Secrets and ConfigMaps by namespace/name.
type fakeSource struct {
	secrets    map[string]map[string][]byte
	configMaps map[string]map[string]string
}

var errNotFound = errors.New("not found")

func (s fakeSource) Secret(namespace, name string) (map[string][]byte, error) {
	if data, found := s.secrets[namespace+"/"+name]; found {
		return data, nil
	}
	return nil, errNotFound
}

func (s fakeSource) ConfigMap(namespace, name string) (map[string]string, error) {
	if data, found := s.configMaps[namespace+"/"+name]; found {
		return data, nil
	}
	return nil, errNotFound
}

func TestTheAuthorizationHeaderIsAsConfigured(t *testing.T) {
	source := fakeSource{secrets: map[string]map[string][]byte{
		"ns/token": {"token": []byte(" t0ken\n"), "broken": []byte("a\nb")},
		"ns/user":  {"username": []byte("me\n"), "password": []byte(" pass:word "), "colon": []byte("m:e")},
	}}
	for _, test := range []struct {
		name   string
		access Access
		want   string
		reason Reason
		text   string
	}{
		{name: "none"},
		{name: "bearer unless a type is given", access: Access{Authorization: &Authorization{SecretRef: KeyRef{"ns", "token", "token"}}}, want: "Bearer t0ken"},
		{name: "another type", access: Access{Authorization: &Authorization{Type: "Token", SecretRef: KeyRef{"ns", "token", "token"}}}, want: "Token t0ken"},
		{name: "basic, both parts trimmed", access: Access{BasicAuth: &BasicAuth{Namespace: "ns", Name: "user"}}, want: "Basic bWU6cGFzczp3b3Jk"},
		{name: "the type basic", access: Access{Authorization: &Authorization{Type: "bAsIc", SecretRef: KeyRef{"ns", "token", "token"}}},
			reason: ReasonInvalidConfiguration, text: `authorization type "bAsIc" is not supported; use the basicAuth field instead`},
		{name: "both", access: Access{Authorization: &Authorization{}, BasicAuth: &BasicAuth{}},
			reason: ReasonInvalidConfiguration, text: "authorization and basicAuth are mutually exclusive"},
		{name: "a colon in the user name", access: Access{BasicAuth: &BasicAuth{Namespace: "ns", Name: "user", UsernameKey: "colon"}},
			reason: ReasonCredentials, text: `the username in basicAuth secret ns/user must not contain ":"`},
		{name: "a secret that is not there", access: Access{Authorization: &Authorization{SecretRef: KeyRef{"ns", "gone", "token"}}},
			reason: ReasonCredentials, text: "can't get authorization secret ns/gone: not found"},
		{name: "a key that is not there", access: Access{BasicAuth: &BasicAuth{Namespace: "ns", Name: "token"}},
			reason: ReasonCredentials, text: `basicAuth secret ns/token does not contain key "username"`},
		{name: "what no header can hold", access: Access{Authorization: &Authorization{SecretRef: KeyRef{"ns", "token", "broken"}}},
			reason: ReasonCredentials, text: `key "broken" of authorization secret ns/token has a line break`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got string
			hook, err := NewClient(Options{}).NewHook(testContext(t), Config{URL: "http://hook/", Access: test.access, Source: source,
				Instrument: answering(func(r *http.Request) (*http.Response, error) {
					got = r.Header.Get("Authorization")
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
				})})
			if err == nil {
				defer hook.Close()
				err = call(t, hook)
			}
			if test.reason != "" {
				e := wantReason(t, err, test.reason, test.text)
				for _, secret := range []string{"t0ken", "pass:word", "a\nb", "m:e"} {
					if strings.Contains(e.Error(), secret) {
						t.Errorf("error %q contains a secret", e)
					}
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("header is %q with error %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestCABundleSources(t *testing.T) {
	inline, empty, garbage := "x", "", "garbage"
	ref := &KeyRef{Namespace: "ns", Name: "ca"}
	source := fakeSource{
		secrets:    map[string]map[string][]byte{"ns/ca": {"other": nil}},
		configMaps: map[string]map[string]string{"ns/ca": {"ca.crt": ""}},
	}
	for _, test := range []struct {
		bundle CABundle
		reason Reason
		text   string
	}{
		{CABundle{}, ReasonInvalidConfiguration, "none of inline, secretRef, or configMapRef is specified"},
		{CABundle{Inline: &inline, SecretRef: ref}, ReasonInvalidConfiguration, "more than one source set"},
		{CABundle{Inline: &empty}, ReasonCredentials, "the inline bundle is empty"},
		{CABundle{Inline: &garbage}, ReasonCredentials, "no valid PEM-encoded certificates"},
		{CABundle{SecretRef: ref}, ReasonCredentials, `key "ca.crt" not found in Secret ns/ca`},
		{CABundle{ConfigMapRef: ref}, ReasonCredentials, `key "ca.crt" in ConfigMap ns/ca is empty`},
		{CABundle{ConfigMapRef: &KeyRef{"ns", "gone", "k"}}, ReasonCredentials, "failed to get ConfigMap ns/gone: not found"},
	} {
		t.Run(test.text, func(t *testing.T) {
			hook, err := NewClient(Options{}).NewHook(testContext(t), Config{URL: "https://hook/", Access: Access{CABundle: &test.bundle}, Source: source})
			if err == nil {
				defer hook.Close()
				err = call(t, hook)
			}
			wantReason(t, err, test.reason, test.text)
		})
	}
}

func TestNewCredentialsEndASuspension(t *testing.T) {
	source := fakeSource{secrets: map[string]map[string][]byte{"ns/token": {"token": []byte("old")}}}
	hook := newTestHook(t, Config{URL: "http://hook/", Source: source, Access: Access{Authorization: &Authorization{SecretRef: KeyRef{"ns", "token", "token"}}},
		Instrument: answering(func(r *http.Request) (*http.Response, error) {
			code := http.StatusServiceUnavailable
			if r.Header.Get("Authorization") == "Bearer new" {
				code = http.StatusOK
			}
			return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
		})})
	for range breakerThreshold {
		_ = call(t, hook)
	}
	wantReason(t, call(t, hook), ReasonSuspended)
	source.secrets["ns/token"] = map[string][]byte{"token": []byte("new")}
	if err := call(t, hook); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
}

func TestHooksWithTheSameIdentityShareConnections(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	client := NewClient(Options{})
	for _, path := range []string{"/sync", "/finalize", "/customize"} {
		hook, err := client.NewHook(testContext(t), Config{URL: server.URL + path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(hook.Close)
		for range 3 {
			if err := call(t, hook); err != nil {
				t.Fatal(err)
			}
		}
	}
	if connections.Load() != 1 {
		t.Errorf("%d connections for nine calls one after another, want 1", connections.Load())
	}
}
