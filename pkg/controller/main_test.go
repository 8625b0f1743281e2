// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	// The first handler logs. The second sleeps, for a time that it reckons from the process's last error: every synctest
	// bubble begins in the year 2000, so that it would sleep for decades of virtual time.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

// testContext ends with the test. What is logged with it goes to the test's output and can be asked for.
func testContext(t *testing.T) (ctx context.Context, logged func() ktesting.Log) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
	buffer := logger.GetSink().(ktesting.Underlier).GetBuffer()
	return klog.NewContext(t.Context(), logger), buffer.Data
}

// inBackground runs the function until the test ends, and waits for its end.
func inBackground(t *testing.T, ctx context.Context, run func(ctx context.Context)) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// errorsIn are the lines of the log that are errors.
func errorsIn(log ktesting.Log) []ktesting.LogEntry {
	var found []ktesting.LogEntry
	for _, entry := range log {
		if entry.Type == ktesting.LogError {
			found = append(found, entry)
		}
	}
	return found
}

// valueOf is what the log line says for the key; nil if it says nothing.
func valueOf(entry ktesting.LogEntry, key string) any {
	list := append(append([]any{}, entry.WithKVList...), entry.ParameterKVList...)
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == key {
			return list[i+1]
		}
	}
	return nil
}

// wantContains fails the test where the text lacks any of the parts.
func wantContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}
