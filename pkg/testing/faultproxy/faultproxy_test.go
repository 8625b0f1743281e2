// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"millwright.dev/pkg/testing/patience"
)

// brief is how long the tests watch that nothing happens.
const brief = 200 * time.Millisecond

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")) // runs as long as the process
}

// apiServer has one ConfigMap, accepts every write, and sends an event to one watch for each name in changes.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	seen    []string // methods and paths
	changes chan string
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{changes: make(chan string)}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	upgrade := r.Header.Get("Upgrade")
	if r.Header.Get("Authorization") != "Bearer admin" || (r.ProtoMajor != 2) != (upgrade != "") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if upgrade != "" {
		echo(w, upgrade)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		_ = json.NewEncoder(w).Encode(configMap("x"))
		return
	}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case name := <-s.changes:
			object, _ := json.Marshal(configMap(name))
			_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", object)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// echo is a protocol that returns what it receives.
func echo(w http.ResponseWriter, protocol string) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", protocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(conn, buffered)
}

func (s *apiServer) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, "\n")
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// setUp starts an API server and a proxy, and returns a client that is configured by the proxy's kubeconfig.
func setUp(t *testing.T) (*apiServer, *Proxy, kubernetes.Interface) {
	t.Helper()
	server := startAPIServer(t)
	proxy, err := Start("first", &rest.Config{
		Host:            server.URL,
		BearerToken:     "admin",
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}, &Journal{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return server, proxy, client(t, proxy)
}

// client returns a client with its own connections, which end with the test.
func client(t *testing.T, proxy *Proxy) kubernetes.Interface {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "test"
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	authenticated, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, &http.Client{Transport: authenticated})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func get(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ConfigMaps("default").Get(ctx, "x", metav1.GetOptions{})
	return err
}

func TestJournal(t *testing.T) {
	_, proxy, client := setUp(t)
	begin := time.Now()
	if err := get(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("x"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Proxy, UserAgent, Verb, Resource, Namespace, Name string
		Code                                              int
		TookEffect                                        bool
	}
	var got []entry
	for _, e := range proxy.journal.Entries() {
		got = append(got, entry{e.Proxy, e.UserAgent, e.Verb, e.Resource + "/" + e.Subresource, e.Namespace, e.Name, e.Code, e.TookEffect()})
		if e.Received.Before(begin) || e.Answered.Before(e.Received) || e.Answered.After(time.Now()) {
			t.Errorf("got the times %s and %s, want them in order, after %s", e.Received, e.Answered, begin)
		}
	}
	want := []entry{
		{"first", "test", "get", "configmaps/", "default", "x", 200, false},
		{"first", "test", "create", "configmaps/", "default", "", 200, true},
		{"first", "test", "update", "pods/status", "default", "p", 200, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// kubectl exec upgrades its connection to another protocol, which needs HTTP/1.1 on both sides.
func TestUpgrade(t *testing.T) {
	_, proxy, _ := setUp(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(proxy.cert.authority)
	conn, err := tls.Dial("tcp", proxy.port.Address(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+proxy.port.Address()+"/api/v1/namespaces/default/pods/x/exec", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + proxy.token}, "Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, req)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "SPDY/3.1" {
		t.Fatalf("got the answer %v, error %v, want an upgrade", resp, err)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if back, err := reader.ReadString('\n'); err != nil || back != "hello\n" {
		t.Errorf("got %q, error %v, want %q", back, err, "hello\n")
	}
	entries := proxy.journal.Entries()
	if last := entries[len(entries)-1]; last.Subresource != "exec" || last.Code != http.StatusSwitchingProtocols {
		t.Errorf("got the last entry %s, want exec with code 101", last)
	}
	// Refuse breaks upgraded connections, too.
	proxy.Refuse()
	if _, err := reader.ReadByte(); err == nil {
		t.Error("the connection is still open after Refuse")
	}
}

func TestTokenIsRequired(t *testing.T) {
	server, proxy, _ := setUp(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + proxy.port.Address() + "/api/v1/secrets")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("got status %s, want 401", resp.Status)
	}
	if requests := server.requests(); requests != "" {
		t.Errorf("got the requests %s at the API server, want none", requests)
	}
}

func TestAnswer(t *testing.T) {
	server, proxy, client := setUp(t)
	for name, test := range map[string]struct {
		with *apierrors.StatusError
		is   func(error) bool
	}{
		"429": {apierrors.NewTooManyRequests("overloaded", 0), apierrors.IsTooManyRequests},
		"500": {apierrors.NewInternalError(errors.New("broken")), apierrors.IsInternalError},
		"410": {apierrors.NewResourceExpired("too old"), apierrors.IsResourceExpired},
	} {
		t.Run(name, func(t *testing.T) {
			stop := proxy.Answer(func(r Request) bool { return r.Resource == "configmaps" }, test.with)
			err := get(t.Context(), client)
			stop()
			if !test.is(err) || !strings.Contains(err.Error(), test.with.ErrStatus.Message) {
				t.Errorf("got %v, want %v", err, test.with)
			}
			if requests := server.requests(); requests != "" {
				t.Errorf("got the requests %s at the API server, want none", requests)
			}
			entries := proxy.journal.Entries()
			if last := entries[len(entries)-1]; !last.Faked || last.Code != int(test.with.ErrStatus.Code) {
				t.Errorf("got the entry %s, want a faked answer with code %d", last, test.with.ErrStatus.Code)
			}
		})
	}
	if err := get(t.Context(), client); err != nil {
		t.Errorf("after stop: %v", err)
	}
}

func TestHang(t *testing.T) {
	server, proxy, client := setUp(t)
	stop := proxy.Hang(Writes)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap("x"), metav1.CreateOptions{})
		ended <- err
	}()
	for len(proxy.journal.Entries()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := get(t.Context(), client); err != nil {
		t.Errorf("a request that does not match: %v", err)
	}
	stop()
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("x"), metav1.CreateOptions{}); err != nil {
		t.Errorf("a write after stop: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("the request that hangs ended after stop: %v", err)
	default:
	}
	if requests := strings.Count(server.requests(), "POST"); requests != 1 {
		t.Errorf("got %d writes at the API server, want 1", requests)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after the client gave up, want %v", err, context.Canceled)
	}
}

func TestAnswerWrites(t *testing.T) {
	_, proxy, client := setUp(t)
	defer proxy.Answer(Writes, apierrors.NewInternalError(errors.New("broken")))()
	if err := get(t.Context(), client); err != nil {
		t.Errorf("a read: %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("x"), metav1.CreateOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("a write: %v", err)
	}
	for _, entry := range proxy.journal.Select(func(e Entry) bool { return e.IsWrite() }) {
		if entry.TookEffect() {
			t.Errorf("got an entry that took effect, want none: %s", entry)
		}
	}
}

// client-go repeats a request only if the answer has Retry-After.
func TestRetryAfter(t *testing.T) {
	_, proxy, client := setUp(t)
	for name, test := range map[string]struct {
		seconds int
		want    bool
	}{
		"without": {0, false},
		"with":    {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(proxy.journal.Entries())
			first := func(Request) bool { return len(proxy.journal.Entries()) == before+1 }
			defer proxy.Answer(first, apierrors.NewTooManyRequests("overloaded", test.seconds))()
			if err := get(t.Context(), client); (err == nil) != test.want {
				t.Errorf("got %v, want success: %t", err, test.want)
			}
		})
	}
}

// awaitChange makes the API server send a change to the watch, and waits for it.
func awaitChange(t *testing.T, server *apiServer, watcher watch.Interface) {
	t.Helper()
	select {
	case server.changes <- "x":
	case <-time.After(patience.Limit):
		t.Fatal("the API server has no watch")
	}
	select {
	case event, open := <-watcher.ResultChan():
		if !open || event.Type != watch.Added {
			t.Fatalf("got the event %+v, want ADDED", event)
		}
	case <-time.After(patience.Limit):
		t.Fatal("got no event from the watch")
	}
}

func openWatch(t *testing.T, client kubernetes.Interface) watch.Interface {
	t.Helper()
	watcher, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	return watcher
}

func awaitEnd(t *testing.T, watcher watch.Interface) {
	t.Helper()
	for {
		select {
		case _, open := <-watcher.ResultChan():
			if !open {
				return
			}
		case <-time.After(patience.Limit):
			t.Fatal("the watch did not end")
		}
	}
}

func TestCutWatches(t *testing.T) {
	server, proxy, client := setUp(t)
	watcher := openWatch(t, client)
	awaitChange(t, server, watcher)
	if cut := proxy.CutWatches(); cut != 1 {
		t.Errorf("got %d watches cut, want 1", cut)
	}
	awaitEnd(t, watcher)
	awaitChange(t, server, openWatch(t, client))
}

func TestRefuse(t *testing.T) {
	server, proxy, client := setUp(t)
	watcher := openWatch(t, client)
	awaitChange(t, server, watcher)
	proxy.Refuse()
	proxy.Refuse() // a second call does nothing
	awaitEnd(t, watcher)
	if err := get(t.Context(), client); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want %v", err, syscall.ECONNREFUSED)
	}
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), client); err != nil {
		t.Errorf("after Accept: %v", err)
	}
}

func TestFreeze(t *testing.T) {
	server, proxy, client := setUp(t)
	watcher := openWatch(t, client)
	awaitChange(t, server, watcher)
	proxy.Freeze()
	server.changes <- "late"
	answered := make(chan error, 1)
	go func() { answered <- get(t.Context(), client) }()
	select {
	case event := <-watcher.ResultChan():
		t.Errorf("got the event %+v while frozen, want none", event)
	case err := <-answered:
		t.Errorf("got an answer while frozen, error %v, want none", err)
	case <-time.After(brief):
	}
	proxy.Thaw()
	if event := <-watcher.ResultChan(); event.Type != watch.Added || event.Object.(*corev1.ConfigMap).Name != "late" {
		t.Errorf("got the event %+v, want ADDED of late", event)
	}
	if err := <-answered; err != nil {
		t.Errorf("after Thaw: %v", err)
	}
}

func TestLatency(t *testing.T) {
	const latency = 300 * time.Millisecond
	server, proxy, client := setUp(t)
	watcher := openWatch(t, client)
	awaitChange(t, server, watcher)
	proxy.SetLatency(latency)
	begin := time.Now()
	awaitChange(t, server, watcher)
	if took := time.Since(begin); took < latency {
		t.Errorf("got a watch event after %s, want at least %s", took, latency)
	}
	begin = time.Now()
	if err := get(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < latency {
		t.Errorf("got an answer after %s, want at least %s", took, latency)
	}
	server.changes <- "slow"
	proxy.SetLatency(0)
	server.changes <- "fast"
	for _, want := range []string{"slow", "fast"} {
		if event := <-watcher.ResultChan(); event.Object.(*corev1.ConfigMap).Name != want {
			t.Errorf("got an event of %s, want %s", event.Object.(*corev1.ConfigMap).Name, want)
		}
	}
}

func TestLostAnswer(t *testing.T) {
	server, proxy, client := setUp(t)
	server.CloseClientConnections()
	server.Close()
	_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("x"), metav1.CreateOptions{})
	if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("got %v, want a broken connection", err)
	}
	for _, entry := range proxy.journal.Entries() {
		if entry.Code != 0 || entry.TookEffect() {
			t.Errorf("got the entry %s, want no answer", entry)
		}
	}
}

func TestCloseWhileFrozen(t *testing.T) {
	server, proxy, client := setUp(t)
	watcher := openWatch(t, client)
	awaitChange(t, server, watcher)
	proxy.Freeze()
	go func() { _ = get(t.Context(), client) }()
	proxy.Close()
	awaitEnd(t, watcher)
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), client); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v after Close, want %v", err, syscall.ECONNREFUSED)
	}
}
