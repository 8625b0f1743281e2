package simnode

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// script is what the annotations of a Pod set.
type script struct {
	// exits: the containers end by themselves, with exitCode after runFor.
	exits    bool
	exitCode int32
	runFor   time.Duration

	neverReady  bool
	termination time.Duration
}

// parseScript reads the script of a Pod. The error names the annotation that it cannot read.
func parseScript(pod *corev1.Pod) (script, error) {
	if err := checkAnnotations(pod); err != nil {
		return script{}, err
	}
	var s script
	if value, ok := pod.Annotations[ExitCodeAnnotation]; ok {
		code, err := strconv.ParseUint(value, 10, 8)
		if err != nil {
			return script{}, fmt.Errorf("annotation %s: %q is not an exit code from 0 to 255", ExitCodeAnnotation, value)
		}
		s.exits, s.exitCode = true, int32(code)
	}
	if value, ok := pod.Annotations[NeverReadyAnnotation]; ok {
		never, err := strconv.ParseBool(value)
		if err != nil {
			return script{}, fmt.Errorf("annotation %s: %q is neither true nor false", NeverReadyAnnotation, value)
		}
		s.neverReady = never
	}
	var err error
	if s.runFor, err = parseSeconds(pod.Annotations, RunSecondsAnnotation); err != nil {
		return script{}, err
	}
	if s.termination, err = parseSeconds(pod.Annotations, TerminationSecondsAnnotation); err != nil {
		return script{}, err
	}
	return s, nil
}

// maxSeconds is far below the limit of a time.Duration, and far above what a test waits for.
const maxSeconds = 1e9

// parseSeconds reads a number of seconds, 0 when there is no such annotation.
func parseSeconds(annotations map[string]string, name string) (time.Duration, error) {
	value, ok := annotations[name]
	if !ok {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(value, 64)
	// Written so that it is true for what is not a number.
	if err != nil || !(seconds >= 0 && seconds <= maxSeconds) {
		return 0, fmt.Errorf("annotation %s: %q is not a number of seconds", name, value)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// prefix is that of the annotations of scripts.
const prefix = "simulated.millwright.dev/"

// annotations are all that begin with prefix.
var annotations = []string{
	ExitCodeAnnotation, RunSecondsAnnotation, NeverReadyAnnotation, TerminationSecondsAnnotation, LogAnnotation, ExecAnnotation,
}

// checkAnnotations returns an error if the Pod has an annotation like those of scripts that would have no effect, or answers that
// cannot be read.
func checkAnnotations(pod *corev1.Pod) error {
	// In order, so that the first of several errors is always the same.
	for _, name := range slices.Sorted(maps.Keys(pod.Annotations)) {
		domain, rest, _ := strings.Cut(name, "/")
		switch domain + "/" {
		case prefix:
			if !slices.Contains(annotations, name) {
				return fmt.Errorf("annotation %s: unknown, must be one of %s", name, strings.Join(annotations, ", "))
			}
		case ContainerLogPrefix, ContainerExecPrefix:
			if names := containerNames(pod); !slices.Contains(names, rest) {
				return fmt.Errorf("annotation %s: the Pod has no container %q, but %s", name, rest, strings.Join(names, ", "))
			}
		}
		if name == ExecAnnotation || strings.HasPrefix(name, ContainerExecPrefix) {
			if _, err := parseAnswers(name, pod.Annotations[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// containerNames returns the names of all containers of the Pod.
func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, c.Name)
	}
	return names
}

// annotationFor returns the annotation for a container: its own, or that of the whole Pod.
func annotationFor(pod *corev1.Pod, container, containerPrefix, ofPod string) (name, value string, ok bool) {
	for _, name := range []string{containerPrefix + container, ofPod} {
		if value, ok := pod.Annotations[name]; ok {
			return name, value, true
		}
	}
	return "", "", false
}
