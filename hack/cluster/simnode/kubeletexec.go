package simnode

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

const (
	// idleTimeout and streamCreationTimeout are those of a kubelet.
	idleTimeout           = 4 * time.Hour
	streamCreationTimeout = 30 * time.Second
)

// serveExec answers a command by the annotation of its Pod.
func (s *simulator) serveExec(w http.ResponseWriter, r *http.Request) {
	command := r.URL.Query()["command"]
	found, err := s.findAnswer(r, command)
	if err != nil {
		refuseStream(w, err)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		refuseStream(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	remotecommand.ServeExec(w, r, executor{found}, r.PathValue("pod"), "", r.PathValue("container"), command, options,
		idleTimeout, streamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// findAnswer returns the answer to a command. The container has to run, as with a kubelet.
func (s *simulator) findAnswer(r *http.Request, command []string) (answer, error) {
	pod, err := s.podOf(r)
	if err != nil {
		return answer{}, err
	}
	container := r.PathValue("container")
	name, value, ok := annotationFor(pod, container, ContainerExecPrefix, ExecAnnotation)
	if !ok {
		return answer{}, errNoScript(pod, "what commands print in them", ExecAnnotation, "'[{stdout: hello}]'")
	}
	if status := statusOf(pod, container); status == nil || status.State.Running == nil {
		return answer{}, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q does not run", container, pod.Name))
	}
	answers, err := parseAnswers(name, value)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	return answerTo(answers, command, name), nil
}

// executor gives one answer.
type executor struct{ answer }

// ExecInContainer implements remotecommand.Executor. Standard input is not read.
func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, _ io.Reader, stdout, stderr io.WriteCloser,
	tty bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(e.duration()):
	}
	if tty {
		stderr = stdout // a terminal has one stream
	}
	for _, output := range []struct {
		to   io.Writer
		text string
	}{{stdout, e.Stdout}, {stderr, e.Stderr}} {
		if output.to == nil || output.text == "" {
			continue
		}
		if _, err := io.WriteString(output.to, output.text); err != nil {
			return err
		}
	}
	if e.ExitCode != 0 {
		return exec.CodeExitError{Err: fmt.Errorf("exit status %d", e.ExitCode), Code: e.ExitCode}
	}
	return nil
}
