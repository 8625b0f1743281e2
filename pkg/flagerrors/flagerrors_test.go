// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package flagerrors

import (
	"errors"
	"testing"
)

func TestJoin(t *testing.T) {
	if err := Join([]error{nil}); err != nil {
		t.Errorf("no errors: %v", err)
	}
	if err := Join([]error{errors.New("a"), nil, errors.New("b\nc")}); err == nil || err.Error() != "a; b c" {
		t.Errorf("errors: %v", err)
	}
}
