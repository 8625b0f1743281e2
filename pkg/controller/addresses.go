// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import "regexp"

// ephemeral matches our end of a connection in an error of package net, as in "read tcp 127.0.0.1:43210->127.0.0.1:8080: ...", whose port
// differs each time. So does the number of the last stream in an error of HTTP/2.
var ephemeral = regexp.MustCompile(`(\S*[0-9A-Za-z\]]:[0-9]{1,5}->)|(LastStreamID=[0-9]+)`)

// WithoutPorts removes from a text what differs each time that a connection fails in the same way, so that events are aggregated, and a
// condition does not change each time.
func WithoutPorts(text string) string {
	return ephemeral.ReplaceAllStringFunc(text, func(found string) string {
		if found[len(found)-1] == '>' {
			return ""
		}
		return "LastStreamID"
	})
}
