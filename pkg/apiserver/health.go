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

// healthTimeout is shorter than that of a probe, so that it is told which check has failed.
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

// told logs what a check says when that changes, since /readyz, which everybody may ask, withholds it.
type told struct {
	healthz.HealthChecker
	logger klog.Logger

	mu   sync.Mutex
	said string
}

// Check implements healthz.HealthChecker.
func (t *told) Check(request *http.Request) error {
	err := t.HealthChecker.Check(request)
	if request.Context().Err() != nil {
		return err // whoever asked did not wait for the answer: that says nothing
	}
	now := ""
	if err != nil {
		now = err.Error()
	}
	t.mu.Lock()
	changed := now != t.said
	t.said = now
	t.mu.Unlock()
	switch {
	case changed && err != nil:
		t.logger.Error(err, "Not ready", "check", t.Name())
	case changed:
		t.logger.Info("Ready again", "check", t.Name())
	}
	return err
}
