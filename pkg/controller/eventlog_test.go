// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestEventMessagesAreNotLogged(t *testing.T) {
	for name, answer := range map[string]error{
		"it is refused": apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("no right")),
		"an outage":     apierrors.NewInternalError(errors.New("the API server fails")),
		"no server":     errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(6)))
				ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logger))
				defer synctest.Wait()
				defer stop()
				client := fake.NewClientset()
				client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, answer })
				StartEvents(ctx, client).Recorder(scheme.Scheme, "hello").Event(podOf("red"), corev1.EventTypeWarning, "Burnt", "the password is hunter2")
				time.Sleep(time.Minute)
				synctest.Wait()
				logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
				if !strings.Contains(logged, "Burnt of Pod default/pod") || strings.Contains(logged, "hunter2") {
					t.Errorf("it is logged:\n%s", logged)
				}
			})
		})
	}
}
