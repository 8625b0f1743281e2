package simnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	internalcorev1 "k8s.io/kubernetes/pkg/apis/core/v1"
)

// followInterval is how long a log that is followed lags behind the end of its container, at most.
const followInterval = 100 * time.Millisecond

// serveLog serves the log of a container.
func (s *simulator) serveLog(w http.ResponseWriter, r *http.Request) {
	options, err := logOptions(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	l, err := s.openLog(r, options)
	if err != nil {
		refuse(w, int(statusError(err).Status().Code), err)
		return
	}
	out := io.Writer(w)
	if options.LimitBytes != nil {
		out = &limitedWriter{w: w, left: *options.LimitBytes}
	}
	// An error is that the client is gone, or has what it wants.
	_ = l.copyTo(r.Context(), out, http.NewResponseController(w).Flush)
}

// logOptions reads the options of a request.
func logOptions(query url.Values) (*corev1.PodLogOptions, error) {
	options := &corev1.PodLogOptions{}
	if err := internalcorev1.Convert_url_Values_To_v1_PodLogOptions(&query, options, nil); err != nil {
		return nil, fmt.Errorf("options of the log: %w", err)
	}
	return options, nil
}

// openedLog is the log of one run of a container, for one client.
type openedLog struct {
	lines   []logLine
	run     containerRun
	options *corev1.PodLogOptions
	// observe returns the run as it is now.
	observe func(context.Context) containerRun
}

func (s *simulator) openLog(r *http.Request, options *corev1.PodLogOptions) (*openedLog, error) {
	pod, err := s.podOf(r)
	if err != nil {
		return nil, err
	}
	container := r.PathValue("container")
	_, text, ok := annotationFor(pod, container, ContainerLogPrefix, LogAnnotation)
	if !ok {
		return nil, errNoScript(pod, "what its containers print", LogAnnotation, "'started'")
	}
	run, err := runOf(pod, container, options.Previous)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if options.Stream != nil && *options.Stream == corev1.LogStreamStderr {
		text = "" // a container prints to its standard output
	}
	script, err := parseScript(pod)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	l := &openedLog{lines: linesOf(text, run.started, script.runFor), run: run, options: options}
	l.observe = func(ctx context.Context) containerRun { return s.observeRun(ctx, pod, container, run) }
	return l, nil
}

// copyTo writes the log, and follows it until the container ends if that is wanted.
func (l *openedLog) copyTo(ctx context.Context, out io.Writer, flush func() error) error {
	now := time.Now()
	run := l.run
	next := firstShown(l.lines, run.printedBy(l.lines, now), l.options, now)
	for {
		printed := run.printedBy(l.lines, now)
		for ; next < printed; next++ {
			if _, err := io.WriteString(out, l.lines[next].shown(l.options.Timestamps)); err != nil {
				return err
			}
		}
		// The client learns that the log is open, even if nothing is printed yet.
		if err := flush(); err != nil {
			return err
		}
		if !l.options.Follow || run.ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followInterval):
		}
		now, run = time.Now(), l.observe(ctx)
	}
}

// observeRun returns the run with its end, if it has ended.
func (s *simulator) observeRun(ctx context.Context, opened *corev1.Pod, container string, run containerRun) containerRun {
	pod, err := s.pods.Pods(opened.Namespace).Get(opened.Name)
	if err != nil || pod.UID != opened.UID {
		// Not there any more, or not yet in the cache.
		pod, err = s.client.CoreV1().Pods(opened.Namespace).Get(ctx, opened.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return run.end(time.Now())
		}
		if err != nil {
			return run // asked again soon
		}
	}
	if pod.UID != opened.UID {
		return run.end(time.Now())
	}
	return run.now(pod, container, time.Now())
}

// errLimit ends a log at the number of bytes that the client wants.
var errLimit = errors.New("the limit is reached")

type limitedWriter struct {
	w    io.Writer
	left int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) <= l.left {
		n, err := l.w.Write(p)
		l.left -= int64(n)
		return n, err
	}
	n, err := l.w.Write(p[:l.left])
	l.left -= int64(n)
	if err == nil {
		err = errLimit
	}
	return n, err
}
