package simnode

import (
	"fmt"
	"strconv"
	"time"
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

// parseScript reads a script. The error names the annotation that it cannot read.
func parseScript(annotations map[string]string) (script, error) {
	var s script
	if value, ok := annotations[ExitCodeAnnotation]; ok {
		code, err := strconv.ParseUint(value, 10, 8)
		if err != nil {
			return script{}, fmt.Errorf("annotation %s: %q is not an exit code from 0 to 255", ExitCodeAnnotation, value)
		}
		s.exits, s.exitCode = true, int32(code)
	}
	if value, ok := annotations[NeverReadyAnnotation]; ok {
		never, err := strconv.ParseBool(value)
		if err != nil {
			return script{}, fmt.Errorf("annotation %s: %q is neither true nor false", NeverReadyAnnotation, value)
		}
		s.neverReady = never
	}
	var err error
	if s.runFor, err = parseSeconds(annotations, RunSecondsAnnotation); err != nil {
		return script{}, err
	}
	if s.termination, err = parseSeconds(annotations, TerminationSecondsAnnotation); err != nil {
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
