// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"fmt"
	"regexp"
	"strings"
)

// knownf returns an error with a text that users know from Kanister and may look for, in its spelling.
func knownf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// RenderError reports which template could not be rendered, and why. It has no value of the template's data in it, unless a
// function puts one into its error.
type RenderError struct {
	// Phase and Argument are where the template stands, such as "dump" and "command[2]". Phase may be empty.
	Phase, Argument string
	// Expression is the part of the template that failed. It is empty if the template as a whole did.
	Expression string
	// Reason is what was wrong.
	Reason string
	// Cause is a limit that was reached, if that was it.
	Cause error
}

func (e *RenderError) Error() string {
	text := "Failed to render template: " + e.Reason
	where := "argument " + e.Argument
	if e.Phase != "" {
		where += " of phase " + e.Phase
	}
	if e.Expression != "" {
		where += ", at {{ " + e.Expression + " }}"
	}
	return text + " (" + where + ")"
}

func (e *RenderError) Unwrap() error { return e.Cause }

var (
	// The text of the engine is: template: <name>:<line>:<column>: executing "<name>" at <<expression>>: <reason>
	executing  = regexp.MustCompile(`(?s)^template: [^ ]*: executing "[^"]*" at <(.*?)>: (.*)$`)
	parsing    = regexp.MustCompile(`(?s)^template: ` + templateName + `:(\d+): (.*)$`)
	missingKey = regexp.MustCompile(`(?s)^map has no entry for key "(.*)"$`)
	missingFn  = regexp.MustCompile(`^function "(.*)" not defined$`)
)

// explain rewrites the engine's text for the author of the Blueprint.
func explain(err error) (expression, reason string) {
	text := err.Error()
	if found := executing.FindStringSubmatch(text); found != nil {
		expression, text = found[1], found[2]
	} else if found := parsing.FindStringSubmatch(text); found != nil {
		text = fmt.Sprintf("line %s: %s", found[1], found[2])
		if missing := missingFn.FindStringSubmatch(found[2]); missing != nil {
			text = fmt.Sprintf("line %s: there is no function %q", found[1], missing[1])
		}
	}
	if found := missingKey.FindStringSubmatch(text); found != nil {
		text = fmt.Sprintf("%q not found", found[1])
	}
	for _, own := range []string{printFunction, stepFunction, enterFunction, leaveFunction, rangeFunction} {
		text = strings.TrimPrefix(text, "error calling "+own+": ")
		if expression == own || strings.HasPrefix(expression, own+" ") {
			expression = ""
		}
	}
	return expression, text
}

// maxReason and maxName are how much is shown in an error of a reason, and of a name or a path, in bytes.
const maxReason, maxName = 1 << 10, 200

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
