// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	//lint:ignore SA1019 What client-go upgrades with is of this package.
	"k8s.io/apimachinery/pkg/util/httpstream"
)

// fakeStream is a stream with fixed content.
type fakeStream struct {
	httpstream.Stream
	io.Reader
}

func (f fakeStream) Read(p []byte) (int, error) { return f.Reader.Read(p) }

type fakeConnection struct {
	httpstream.Connection
	says string
}

func (f fakeConnection) CreateStream(http.Header) (httpstream.Stream, error) {
	return fakeStream{Reader: strings.NewReader(f.says)}, nil
}

type fakeUpgrader struct{ says string }

func (f fakeUpgrader) NewConnection(*http.Response) (httpstream.Connection, error) {
	return fakeConnection{says: f.says}, nil
}

// The library takes an empty stream of errors for success.
func TestBrokenStreamFails(t *testing.T) {
	for _, test := range []struct {
		stream, says string
		broken       bool
	}{
		{corev1.StreamTypeError, "", true},
		{corev1.StreamTypeError, `{"status":"Success"}`, false},
		{corev1.StreamTypeStdout, "", false},
	} {
		connection, err := wholeStreams{fakeUpgrader{test.says}}.NewConnection(nil)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := connection.CreateStream(http.Header{http.CanonicalHeaderKey(corev1.StreamType): {test.stream}})
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(stream)
		if broken := errors.Is(err, errBrokenOff); broken != test.broken || string(content) != test.says {
			t.Errorf("%s with the text %q: %q, %v", test.stream, test.says, content, err)
		}
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (a transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return a(req) }

func TestOpenErrorIsKept(t *testing.T) {
	status, err := json.Marshal(apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "pg-0").ErrStatus)
	if err != nil {
		t.Fatal(err)
	}
	kind := strings.Replace(string(status), "{", `{"kind":"Status",`, 1)
	for name, test := range map[string]struct {
		code  int
		body  string
		again bool
		want  string
	}{
		"a status":         {http.StatusNotFound, kind, false, `pods "pg-0" not found`},
		"a proxy's answer": {http.StatusBadGateway, "<html>", true, "the server"},
	} {
		opening := &roundTrip{next: transportFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: test.code, Body: io.NopCloser(strings.NewReader(test.body))}, nil
		})}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := opening.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		err = beforeStart(opening.err)
		if notStarted(err) != test.again || !strings.Contains(err.Error(), test.want) || string(body) != test.body {
			t.Errorf("%s: %v, not started: %t; %q", name, err, notStarted(err), body)
		}
	}
}
