// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flagerrors has how all subcommands report what is wrong with their flags.
package flagerrors

import (
	"errors"
	"strings"
)

// Join returns one error with the messages of all errors in one line, as the command line reports them. Errors that are nil are left out.
// It returns nil if all are.
func Join(errs []error) error {
	var messages []string
	for _, err := range errs {
		if err != nil {
			messages = append(messages, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	if len(messages) == 0 {
		return nil
	}
	return errors.New(strings.Join(messages, "; "))
}
