// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"strings"
	"testing"
	"time"
)

func TestTheAddressOfAHook(t *testing.T) {
	path, port, protocol := "/sync?a=b", int32(8443), "https"
	service := &Service{Name: "svc", Namespace: "ns"}
	for _, test := range []struct {
		name   string
		config Config
		want   string // a text of the error if it has spaces
	}{
		{"a URL", Config{URL: "https://example.com/sync"}, "https://example.com/sync"},
		{"a URL with a password", Config{URL: "http://user:pass@example.com/"}, "http://example.com/"},
		{"a URL with a query", Config{URL: "http://example.com/a%2Fb?token=pass@#pass@"}, "http://example.com/a%2Fb"},
		{"a URL wins over a service", Config{URL: "http://example.com/", Service: service, Path: &path}, "http://example.com/"},
		{"a service, port 80 by http", Config{Service: service, Path: &path}, "http://svc.ns:80/sync"},
		{"a service with port and protocol", Config{Service: &Service{Name: "svc", Namespace: "ns", Port: &port, Protocol: &protocol}, Path: &path}, "https://svc.ns:8443/sync"},
		{"nothing", Config{}, "invalid webhook config: must specify either full 'url', or both 'service' and 'path'"},
		{"a service without a path", Config{Service: service}, "must specify either full 'url', or both 'service' and 'path'"},
		{"a service without a name", Config{Service: &Service{Namespace: "ns"}, Path: &path}, "invalid client config: must specify service 'name' and 'namespace'"},
		{"another scheme", Config{URL: "ftp://user:pass@host/"}, `"ftp://host/" is no URL of the form`},
		{"another scheme, with a query", Config{URL: "ftp://host/a?token=pass@"}, `"ftp://host/a" is no URL of the form`},
		{"no scheme", Config{URL: "not a url"}, `"not a url" is no URL of the form`},
		{"no host", Config{URL: "http:///sync"}, "is no URL of the form"},
		{"no scheme, and a password", Config{URL: "user:pass@host/sync"}, `"user:" is no URL of the form`},
		{"a password that is not escaped", Config{URL: "http://user:pass@/x@host/"}, "is no URL of the form"},
		{"a password with a slash", Config{URL: "http://user:pa/ss@host/"}, "the URL cannot be parsed: it has an invalid"},
		{"a port that is none", Config{URL: "http://host:port/"}, `the URL cannot be parsed: invalid port ":port" after host`},
		{"what is no URL", Config{URL: "http://user:pass@host:port/"}, "the URL cannot be parsed: "},
		{"a version that there is not", Config{URL: "http://h/", Version: "v3"}, `version is "v3", and must be v1 or v2`},
		{"a mode that there is not", Config{URL: "http://h/", Mode: "lose"}, `responseUnMarshallMode is "lose", and must be loose or strict`},
	} {
		t.Run(test.name, func(t *testing.T) {
			hook, err := NewClient(Options{}).NewHook(testContext(t), test.config)
			if shown := test.config.Address(); err == nil && shown != hook.URL() || strings.Contains(shown, "pass@") {
				t.Errorf("the URL is shown as %q before there is a hook", shown)
			}
			if strings.Contains(test.want, " ") {
				if e := wantReason(t, err, ReasonInvalidConfiguration, test.want); strings.Contains(e.Error(), "pass@") {
					t.Errorf("error %q contains a password", e)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer hook.Close()
			if hook.URL() != test.want {
				t.Errorf("URL is %s, want %s", hook.URL(), test.want)
			}
		})
	}
}

func TestDefaultsOfVersionModeAndTimeout(t *testing.T) {
	negative, zero, some := -time.Second, time.Duration(0), 3*time.Second
	for _, test := range []struct {
		name    string
		config  Config
		version Version
		strict  bool
		timeout time.Duration
	}{
		{"nothing given", Config{}, V1, false, 10 * time.Second},
		{"v2 is strict", Config{Version: V2, Timeout: &some}, V2, true, 3 * time.Second},
		{"v2 can be loose", Config{Version: V2, Mode: Loose, Timeout: &zero}, V2, false, 10 * time.Second},
		{"v1 can be strict", Config{Version: V1, Mode: Strict, Timeout: &negative}, V1, true, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.URL = "http://hook/"
			hook := newTestHook(t, test.config)
			if hook.Version() != test.version || hook.Rules().Strict != test.strict || hook.timeout != test.timeout {
				t.Errorf("version %s, strict %t, timeout %s, want %s, %t, %s", hook.Version(), hook.Rules().Strict, hook.timeout, test.version, test.strict, test.timeout)
			}
		})
	}
}

func TestTheFirstEndpointOfTheHostLendsItsAccess(t *testing.T) {
	for _, test := range []struct {
		url, host string
		want      bool
	}{
		{"https://example.com/sync", "example.com", true},
		{"https://Example.com/sync", "eXample.com:443", true},
		{"https://example.com:443/sync", "example.com", true},
		{"http://example.com:80/sync", "example.com", true},
		{"http://example.com/sync", "example.com:80", true},
		{"http://svc.ns:80/sync", "svc.ns", true},
		{"http://svc.ns:8080/sync", "svc.ns:8080", true},
		{"http://svc.ns:8080/sync", "svc.ns", false},
		{"https://example.com/sync", "example.com:80", false},
		{"http://example.com/sync", "example.com:443", false},
		{"https://a.example.com/sync", "example.com", false},
		{"https://[::1]/sync", "[::1]", true},
		{"https://[::1]/sync", "[::1]:443", true},
		{"https://[::1]:8443/sync", "[::1]:8443", true},
	} {
		t.Run(test.url+" and "+test.host, func(t *testing.T) {
			lent, second := Access{BasicAuth: &BasicAuth{Name: "first"}}, Access{BasicAuth: &BasicAuth{Name: "second"}}
			hook := newTestHook(t, Config{URL: test.url, Endpoints: []Endpoint{{Host: "other"}, {Host: test.host, Access: lent}, {Host: test.host, Access: second}}})
			if got := hook.Access() == lent; got != test.want {
				t.Errorf("lent is %t, want %t", got, test.want)
			}
		})
	}
}

func TestAHookWithAnAccessOfItsOwnIsLentNothing(t *testing.T) {
	own := Access{Authorization: &Authorization{}}
	hook := newTestHook(t, Config{URL: "http://h/", Access: own, Endpoints: []Endpoint{{Host: "h", Access: Access{BasicAuth: &BasicAuth{}, ClientTLS: &ClientTLS{}}}}})
	if hook.Access() != own {
		t.Errorf("access is %+v, want %+v", hook.Access(), own)
	}
}
