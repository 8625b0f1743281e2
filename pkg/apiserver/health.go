// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// healthTimeout is shorter than that of a probe, so that the probe gets the name of the failed check.
const healthTimeout = 3 * time.Second

// kubeAPIServerCheck fails while kube-apiserver cannot be reached: nothing can be served without it.
func kubeAPIServerCheck(client kubernetes.Interface) healthz.HealthChecker {
	return healthz.NamedCheck("kube-apiserver", func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), healthTimeout)
		defer cancel()
		if err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error(); err != nil {
			return fmt.Errorf("reaching kube-apiserver: %w", err)
		}
		return nil
	})
}

// llamaStorageCheck fails while Llamas cannot be stored, as when the CRD of the records is missing. FarmPods are served
// nevertheless, so probes of a Deployment exclude it.
func llamaStorageCheck(llamas storage.Interface) healthz.HealthChecker {
	return healthz.NamedCheck("llama-storage", func(*http.Request) error { return llamas.ReadinessCheck() })
}

// checkTTL is how long the answer of a check is cached.
const checkTTL = time.Second

// sharedCheck asks one question for all requests to /readyz, which everyone may send as often as they like. It logs changes of the answer, since
// /readyz does not show errors.
type sharedCheck struct {
	healthz.HealthChecker
	logger klog.Logger

	mu     sync.Mutex
	asking bool
	asked  time.Time // when there was an answer; the zero value before the first
	last   error
}

// errNotAsked is the answer before the first one.
var errNotAsked = errors.New("the first check has not ended")

// Check implements healthz.HealthChecker. Requests that come while another one waits for the answer get the last: otherwise they would occupy places of
// other requests as long as kube-apiserver does not answer.
func (s *sharedCheck) Check(request *http.Request) error {
	if last, ask := s.begin(); !ask {
		return last
	}
	err := errNotAsked
	defer func() { s.end(err) }()
	// A client that does not wait for the answer must not spoil it for others.
	err = s.HealthChecker.Check(request.WithContext(context.WithoutCancel(request.Context())))
	return err
}

// begin reports whether the caller must ask, and otherwise returns the last answer.
func (s *sharedCheck) begin() (last error, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.asking && (s.asked.IsZero() || time.Since(s.asked) >= checkTTL):
		s.asking = true
		return nil, true
	case s.asked.IsZero():
		return errNotAsked, false
	default:
		return s.last, false
	}
}

func (s *sharedCheck) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && (s.last == nil || s.last.Error() != err.Error()):
		s.logger.Error(err, "Not ready", "check", s.Name())
	case err == nil && s.last != nil:
		s.logger.Info("Ready again", "check", s.Name())
	}
	s.asking, s.asked, s.last = false, time.Now(), err
}
