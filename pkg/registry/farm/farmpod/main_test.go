// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	goleak.VerifyTestMain(m)
}

// testContext is that of a request for FarmPods of the namespace, made by alice.
func testContext(t testing.TB, namespace string) context.Context {
	ctx := klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig()))
	ctx = request.WithNamespace(ctx, namespace)
	return request.WithUser(ctx, &user.DefaultInfo{Name: "alice"})
}

// upstream is an API server that has Pods. It notes what it was asked. It sends protobuf, which the tests are about.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newUpstream(t testing.TB, answer http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.seen = append(u.seen, r)
		u.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) rest(t testing.TB, access authorizer.UnconditionalAuthorizer) *REST {
	t.Helper()
	// A transport of its own, so that none of its connections is left when the test has ended.
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r, err := NewREST(&rest.Config{Host: u.URL, Transport: transport}, access)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// paths are the paths that were asked for.
func (u *upstream) paths() (paths []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.seen {
		paths = append(paths, r.URL.Path)
	}
	return paths
}

// query is what the only request has asked.
func (u *upstream) query(t testing.TB) url.Values {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.seen) != 1 {
		t.Fatalf("the API server was asked %d times, want 1", len(u.seen))
	}
	return u.seen[0].URL.Query()
}

// answering answers with an object. A client that does not ask for protobuf gets none.
func answering(status int, object runtime.Object) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		w.WriteHeader(status)
		mustEncode(protobuf().Serializer, object, w)
	}
}

// refusing answers as the API server does when it has another answer than an object.
func refusing(status metav1.Status) http.HandlerFunc { return answering(int(status.Code), &status) }

func protobuf() runtime.SerializerInfo {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		panic("client-go has lost protobuf")
	}
	return info
}

func mustEncode(serializer runtime.Encoder, object runtime.Object, w io.Writer) {
	if err := scheme.Codecs.EncoderForVersion(serializer, schema.GroupVersions{corev1.SchemeGroupVersion}).Encode(object, w); err != nil {
		panic(fmt.Sprintf("encoding %T: %v", object, err))
	}
}

// streaming answers a watch with the events of the channel. The watch ends with it.
func streaming(events <-chan watch.Event) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		frames := protobuf().StreamSerializer.Framer.NewFrameWriter(w)
		for {
			select {
			case <-r.Context().Done():
				return
			case event, ok := <-events:
				if !ok {
					return
				}
				if _, err := frames.Write(frame(event)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}
	}
}

// frame is an event as it is sent.
func frame(event watch.Event) []byte {
	var object, whole writer
	mustEncode(protobuf().Serializer, event.Object, &object)
	mustEncode(protobuf().StreamSerializer.Serializer, &metav1.WatchEvent{Type: string(event.Type), Object: runtime.RawExtension{Raw: object}}, &whole)
	return whole
}

type writer []byte

func (w *writer) Write(data []byte) (int, error) {
	*w = append(*w, data...)
	return len(data), nil
}
