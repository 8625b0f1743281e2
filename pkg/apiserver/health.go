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

// loggedCheck logs changes of a check, since /readyz, which everyone may read, does not show the errors.
type loggedCheck struct {
	healthz.HealthChecker
	logger klog.Logger

	mu   sync.Mutex
	last string
}

// Check implements healthz.HealthChecker.
func (l *loggedCheck) Check(request *http.Request) error {
	err := l.HealthChecker.Check(request)
	if request.Context().Err() != nil {
		return err // the client did not wait for the answer: the check proves nothing
	}
	now := ""
	if err != nil {
		now = err.Error()
	}
	l.mu.Lock()
	changed := now != l.last
	l.last = now
	l.mu.Unlock()
	switch {
	case changed && err != nil:
		l.logger.Error(err, "Not ready", "check", l.Name())
	case changed:
		l.logger.Info("Ready again", "check", l.Name())
	}
	return err
}
