// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"os"
	"path/filepath"
	"testing"

	"millwright.dev/pkg/controller/servingcert"
)

// A reader who knows one kind finds the same things in the same files of every other kind.
func TestKindsHaveTheSameFiles(t *testing.T) {
	decision := []string{"observed.go", "plan.go", "desired.go", "status.go"}
	for _, d := range Descriptors() {
		files := []string{"doc.go", "controller.go", "gather.go", "apply.go", "events.go", "metrics.go"}
		if d.Name != servingcert.ControllerName { // package certs decides for it
			files = append(files, decision...)
		}
		folder := filepath.Join("..", "controller", d.Markers())
		if d.Deployment == engineDeployment {
			folder = filepath.Join("..", "controller", "engine", "parent") // what is above it hosts controllers
		}
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
	}
}
