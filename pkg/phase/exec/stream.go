// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	//lint:ignore SA1019 client-go uses this package for upgrades.
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientremotecommand "k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"millwright.dev/pkg/phase"
)

// maxAnswer is how much is read of an answer that is not a stream, in bytes.
const maxAnswer = 64 << 10

// Container is where a command runs. Name is empty for the only container of the Pod.
type Container struct{ Namespace, Pod, Name string }

func (c Container) String() string {
	if c.Name == "" {
		return fmt.Sprintf("Pod %s/%s", c.Namespace, c.Pod)
	}
	return fmt.Sprintf("container %s of Pod %s/%s", c.Name, c.Namespace, c.Pod)
}

// Executor runs a command in a container, and returns when the command or the context has ended. It may still write to stdout and stderr
// after that. If notStarted is true for its error, the command has not begun.
type Executor func(ctx context.Context, in Container, command []string, stdout, stderr io.Writer) error

type openedKey struct{}

// whenOpened returns a context that calls the function when a stream was opened.
func whenOpened(ctx context.Context, do func()) context.Context {
	return context.WithValue(ctx, openedKey{}, do)
}

// notStartedError is the error of an API server that could not be reached, or had a temporary problem, before the command began.
type notStartedError struct{ error }

func (e notStartedError) Unwrap() error { return e.error }

func notStarted(err error) bool { return errors.As(err, new(notStartedError)) }

// streamProtocols are those in which the end of a command is always reported, also when it has succeeded.
var streamProtocols = []string{remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name}

// NewExecutor returns an Executor on the API server. It uses SPDY, which the API server passes on unchanged. A WebSocket is
// translated there: if the node breaks the stream, the API server then reports that the command has succeeded.
func NewExecutor(env phase.Environment) Executor {
	return func(ctx context.Context, in Container, command []string, stdout, stderr io.Writer) error {
		url := env.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(in.Namespace).Name(in.Pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: in.Name, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).
			URL()
		ctx = withQuery(ctx, url.RawQuery)
		url.RawQuery = ""
		config, paused := withoutQueryInLogs(env.RESTConfig), newPause()
		upgrade, err := newUpgrade(config, paused)
		if err != nil {
			return fmt.Errorf("preparing the stream: %w", err)
		}
		transport, err := rest.HTTPWrappersForConfig(config, upgrade)
		if err != nil {
			return fmt.Errorf("preparing the stream: %w", err)
		}
		opening := &roundTrip{next: transport}
		executor, err := clientremotecommand.NewSPDYExecutorForProtocols(opening, wholeStreams{upgrade}, http.MethodPost, url, streamProtocols...)
		if err != nil {
			return fmt.Errorf("preparing the stream: %w", err)
		}
		err = executor.StreamWithContext(ctx, clientremotecommand.StreamOptions{Stdout: paused.writer(stdout), Stderr: paused.writer(stderr)})
		if opening.err != nil {
			err = opening.err
		}
		return beforeStart(err)
	}
}

// roundTrip keeps the error why a stream could not be opened: the library returns only its text.
type roundTrip struct {
	next http.RoundTripper
	err  error
}

func (r *roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		if opened, ok := req.Context().Value(openedKey{}).(func()); err == nil && ok {
			opened()
		}
		r.err = err
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	answer := apierrors.NewGenericServerResponse(resp.StatusCode, req.Method, schema.GroupResource{Resource: "pods/exec"}, "", string(body), 0, true)
	var status metav1.Status
	if err == nil && json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		answer.ErrStatus = status
	}
	r.err = answer
	return resp, nil
}

// wholeStreams makes connections that return an error if the stream ends before the command. The library takes the end of the error stream
// for a success, whatever was received before.
type wholeStreams struct{ spdy.Upgrader }

func (w wholeStreams) NewConnection(resp *http.Response) (httpstream.Connection, error) {
	connection, err := w.Upgrader.NewConnection(resp)
	if err != nil {
		return nil, err
	}
	return wholeConnection{connection}, nil
}

type wholeConnection struct{ httpstream.Connection }

func (c wholeConnection) CreateStream(headers http.Header) (httpstream.Stream, error) {
	stream, err := c.Connection.CreateStream(headers)
	if err != nil || headers.Get(corev1.StreamType) != corev1.StreamTypeError {
		return stream, err
	}
	return &endStream{Stream: stream}, nil
}

// endStream is the stream on which the end of a command is reported.
type endStream struct {
	httpstream.Stream
	reported bool
}

var errBrokenOff = errors.New("the stream ended before the command did: how the command ended is not known")

func (s *endStream) Read(p []byte) (n int, err error) {
	n, err = s.Stream.Read(p)
	s.reported = s.reported || n > 0
	if errors.Is(err, io.EOF) && !s.reported {
		err = errBrokenOff
	}
	return n, err
}

// answerOf returns the answer with which the API server has refused a stream.
func answerOf(err error) (status *apierrors.StatusError, ok bool) {
	return status, errors.As(err, &status)
}

// beforeStart marks temporary errors from before the command can have begun. A command begins when the stream is open: not without a
// connection, and not with another answer.
func beforeStart(err error) error {
	var connecting *net.OpError
	if errors.As(err, &connecting) && (connecting.Op == "dial" || connecting.Op == "proxyconnect") {
		return notStartedError{err}
	}
	status, answered := answerOf(err)
	switch {
	case !answered:
		return err
	case phase.Definitive(status) == error(status):
		return notStartedError{status}
	default:
		return status
	}
}

// readable returns the text of an error without the queries of URLs: they contain the command, which may contain a password.
func readable(err error) string {
	return queryInText.ReplaceAllString(strings.TrimPrefix(err.Error(), "unable to upgrade connection: "), "$1")
}

// queryInText matches a URL with a query in a text.
var queryInText = regexp.MustCompile(`([a-z]+://[^\s"?]*)\?[^\s"]*`)
