// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
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

	mu    sync.Mutex
	asked time.Time // the zero value before the first answer
	last  error
}

// Check implements healthz.HealthChecker. Requests that come while another one waits for the answer share it.
func (s *sharedCheck) Check(request *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked.IsZero() && time.Since(s.asked) < checkTTL {
		return s.last
	}
	// A client that does not wait for the answer must not spoil it for others.
	err := s.HealthChecker.Check(request.WithContext(context.WithoutCancel(request.Context())))
	switch {
	case err != nil && (s.last == nil || s.last.Error() != err.Error()):
		s.logger.Error(err, "Not ready", "check", s.Name())
	case err == nil && s.last != nil:
		s.logger.Info("Ready again", "check", s.Name())
	}
	s.asked, s.last = time.Now(), err
	return err
}
