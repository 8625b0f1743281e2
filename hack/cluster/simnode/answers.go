package simnode

import (
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// answer is what a command does that is executed in a container. A list of answers is the value of ExecAnnotation: the first one
// applies that is for the command.
type answer struct {
	// Command is a text that the command line contains, whose arguments are separated by blanks. Empty: any command.
	Command string `json:"command"`
	// Stdout and Stderr are what the command prints.
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// ExitCode is from 0 to 255.
	ExitCode int `json:"exitCode"`
	// Seconds is how long the command takes. It prints at its end.
	Seconds float64 `json:"seconds"`
}

// parseAnswers reads the value of the annotation of that name.
func parseAnswers(name, value string) ([]answer, error) {
	var answers []answer
	if err := yaml.UnmarshalStrict([]byte(value), &answers); err != nil {
		return nil, fmt.Errorf("annotation %s: not a YAML list of answers, as in [{command: ls, stdout: a}], "+
			"with the fields command, stdout, stderr, exitCode and seconds: %w", name, err)
	}
	for i, a := range answers {
		if a.ExitCode < 0 || a.ExitCode > 255 {
			return nil, fmt.Errorf("annotation %s: answer %d: %d is not an exit code from 0 to 255", name, i+1, a.ExitCode)
		}
		// Written so that it is true for what is not a number.
		if !(a.Seconds >= 0 && a.Seconds <= maxSeconds) {
			return nil, fmt.Errorf("annotation %s: answer %d: %v is not a number of seconds", name, i+1, a.Seconds)
		}
	}
	return answers, nil
}

// notFoundCode is the exit code of a shell for a command that does not exist.
const notFoundCode = 127

// answerTo returns the answer for a command. A command without one fails like a command that does not exist.
func answerTo(answers []answer, command []string, annotation string) answer {
	line := strings.Join(command, " ")
	for _, a := range answers {
		if strings.Contains(line, a.Command) {
			return a
		}
	}
	return answer{ExitCode: notFoundCode, Stderr: fmt.Sprintf("%s: the annotation %s of this simulated Pod has no answer for this command\n", line, annotation)}
}

func (a answer) duration() time.Duration { return time.Duration(a.Seconds * float64(time.Second)) }
