// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flagerrors has how all subcommands report what is wrong with their flags.
package flagerrors

import (
	"errors"
	"strings"
)

// Join returns one error with the messages of all errors in one line, as the command line reports them, and nil if there are none.
func Join(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	messages := make([]string, 0, len(errs))
	for _, err := range errs {
		messages = append(messages, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return errors.New(strings.Join(messages, "; "))
}
