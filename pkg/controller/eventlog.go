// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// withoutMessages returns a context whose logger logs the names of events without their messages: a broadcaster logs the whole event if it
// cannot be posted, and its message may have output of users' commands.
func withoutMessages(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx).WithCallDepth(1)
	return klog.NewContext(ctx, logr.New(eventNames{logger.GetSink()}))
}

// eventNames is a log sink that replaces events by their object and their reason.
type eventNames struct{ logr.LogSink }

func (n eventNames) Info(level int, message string, keysAndValues ...any) {
	n.LogSink.Info(level, message, eventsNamed(keysAndValues)...)
}

func (n eventNames) Error(err error, message string, keysAndValues ...any) {
	n.LogSink.Error(err, message, eventsNamed(keysAndValues)...)
}

func (n eventNames) WithValues(keysAndValues ...any) logr.LogSink {
	return eventNames{n.LogSink.WithValues(eventsNamed(keysAndValues)...)}
}

func (n eventNames) WithName(name string) logr.LogSink {
	return eventNames{n.LogSink.WithName(name)}
}

func eventsNamed(keysAndValues []any) []any {
	keysAndValues = slices.Clone(keysAndValues)
	for i, value := range keysAndValues {
		if event, ok := value.(*corev1.Event); ok {
			of := event.InvolvedObject
			keysAndValues[i] = event.Reason + " of " + of.Kind + " " + klog.KRef(of.Namespace, of.Name).String()
		}
	}
	return keysAndValues
}
