// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// audit is a function that receives all requests of a user.
type audit struct {
	user string
	read func(*auditv1.Event)
}

// readLog reads the audit log of an API server that has ended. The log has two events for a watch, for its start and for its end.
func (a audit) readLog(path string) error {
	log, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer log.Close()
	// Decoding every line would take many times as long: most requests are of other users.
	user := []byte(`"` + a.user + `"`)
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil // ignores an incomplete last line of a killed API server
		case err != nil:
			return fmt.Errorf("reading the audit log: %w", err)
		case !bytes.Contains(line, user):
			continue
		}
		event := &auditv1.Event{}
		if err := json.Unmarshal(line, event); err != nil {
			return fmt.Errorf("reading the audit log: %w in the line %s", err, line)
		}
		if event.User.Username == a.user {
			a.read(event)
		}
	}
}
