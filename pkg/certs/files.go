// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/klog/v2"
)

// pollInterval is how often files are read. Reading is cheap, and finds a change however it was made: the kubelet swaps
// a symbolic link, others write one file after the other.
const pollInterval = 5 * time.Second

// UpdateFromFiles reads a certificate and its key. A pair that does not match, because one file is written already and
// the other is not, is an error, and what was served before is served further.
func (s *Source) UpdateFromFiles(certFile, keyFile string) (changed bool, err error) {
	certificate, err := os.ReadFile(certFile)
	if err != nil {
		return false, fmt.Errorf("reading the certificate of %s: %w", s.name, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return false, fmt.Errorf("reading the key of %s: %w", s.name, err)
	}
	return s.Update(certificate, key)
}

// RunFiles reloads the files until the context ends. It waits for files that do not exist yet.
func (s *Source) RunFiles(ctx context.Context, certFile, keyFile string) {
	logger := klog.FromContext(ctx)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := ""
	for {
		switch changed, err := s.UpdateFromFiles(certFile, keyFile); {
		case err == nil && changed:
			logger.Info("Loaded a new certificate", "source", s.name, "file", certFile)
			last = ""
		case err == nil:
			last = ""
		case err.Error() != last:
			last = err.Error()
			logger.Error(err, "Failed to load the certificate, will try again", "source", s.name)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
