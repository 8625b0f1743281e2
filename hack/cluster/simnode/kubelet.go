package simnode

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// Serving is how the nodes serve the API of a kubelet: all of them at one port on loopback.
type Serving struct {
	// Certificate and Key are files, valid for 127.0.0.1.
	Certificate, Key string
	// ClientCA is the file of the authority, and Client the common name, of the only client that is let in: kube-apiserver.
	ClientCA, Client string
}

// listen opens the port of the API of a kubelet.
func (s Serving) listen() (net.Listener, error) {
	certificate, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the simulated nodes: %w", err)
	}
	clients, err := certutil.NewPool(s.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("authority of the simulated nodes' clients: %w", err)
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort(hostIP, "0"))
	if err != nil {
		return nil, fmt.Errorf("listening for the simulated nodes: %w", err)
	}
	return tls.NewListener(watchedListener{listener}, &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS12,
		// Streams of exec need HTTP/1.1.
		NextProtos: []string{"http/1.1"},
	}), nil
}

// portOf returns the port of a listener.
func portOf(listener net.Listener) int32 { return int32(listener.Addr().(*net.TCPAddr).Port) }

// serve serves the API of a kubelet until the context ends.
func (s *simulator) serve(ctx context.Context, listener net.Listener, client string) {
	server := &http.Server{
		Handler:           onlyFor(client, s.kubeletAPI()),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConnection,
		ReadHeaderTimeout: 10 * time.Second,
	}
	var stopping sync.WaitGroup
	stopping.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		klog.FromContext(ctx).Error(err, "Failed to serve logs and exec of simulated nodes")
	}
	stopping.Wait()
}

// onlyFor refuses other clients than that of the name, which the authority may have signed too.
func onlyFor(client string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.TLS.PeerCertificates[0].Subject.CommonName; name != client {
			refuse(w, http.StatusForbidden, fmt.Errorf("simulated nodes serve kube-apiserver only, not %s", name))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// kubeletAPI is the part of the API of a kubelet that kube-apiserver uses for Pods.
func (s *simulator) kubeletAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.serveLog)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", s.serveExec)
	for path, what := range map[string]string{
		"/attach/{namespace}/{pod}/{container}": "attach",
		"/portForward/{namespace}/{pod}":        "port-forward",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			refuseStream(w, apierrors.NewBadRequest(fmt.Sprintf("Pod %s/%s runs on a simulated node, which runs no containers: there is no %s, "+
				"only logs and exec", r.PathValue("namespace"), r.PathValue("pod"), what)))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("%s: a simulated node serves containerLogs and exec only", r.URL.Path))
	})
	return mux
}

// podOf returns the Pod of a request, as the API server has it: a cache may not have seen yet that it runs.
func (s *simulator) podOf(r *http.Request) (*corev1.Pod, error) {
	pod, err := s.client.CoreV1().Pods(r.PathValue("namespace")).Get(r.Context(), r.PathValue("pod"), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !s.nodes[pod.Spec.NodeName] {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	}
	if _, err := parseScript(pod); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return pod, nil
}

// errNoScript is the refusal for a container that no annotation is for.
func errNoScript(pod *corev1.Pod, what, annotation, value string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("Pod %s runs on a simulated node, which runs no containers. An annotation sets %s:\n"+
		"kubectl annotate pod -n %s %s %s=%s", pod.Name, what, pod.Namespace, pod.Name, annotation, value))
}

// refuse answers with the text of an error, which kube-apiserver makes the message of its own answer.
func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, err.Error())
}

// refuseStream answers with an error as the API has it: that is what clients of streams read.
func refuseStream(w http.ResponseWriter, err error) {
	status := statusError(err).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// statusError returns the error as one of the API.
func statusError(err error) apierrors.APIStatus {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status
	}
	return apierrors.NewInternalError(err)
}
