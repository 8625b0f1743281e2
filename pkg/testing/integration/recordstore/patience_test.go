// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"millwright.dev/pkg/testing/patience"
)

// patient retries requests if the API server of the records responds with too many requests, as client-go does.
type patient struct{ storage.Interface }

// repeat repeats the request until the error is another one. A request with this error has had no effect.
func repeat(ctx context.Context, ask func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience.Limit, true, func(context.Context) (bool, error) {
		last = ask()
		return !apierrors.IsTooManyRequests(last), nil
	})
	if last == nil {
		return err
	}
	return last
}

func (p patient) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return repeat(ctx, func() error { return p.Interface.Create(ctx, key, obj, out, ttl) })
}

func (p patient) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc,
	cached runtime.Object, options storage.DeleteOptions,
) error {
	return repeat(ctx, func() error {
		return p.Interface.Delete(ctx, key, out, preconditions, validate, cached, options)
	})
}

func (p patient) Watch(ctx context.Context, key string, options storage.ListOptions) (watcher watch.Interface, err error) {
	err = repeat(ctx, func() error {
		watcher, err = p.Interface.Watch(ctx, key, options)
		return err
	})
	return watcher, err
}

func (p patient) Get(ctx context.Context, key string, options storage.GetOptions, into runtime.Object) error {
	return repeat(ctx, func() error { return p.Interface.Get(ctx, key, options, into) })
}

func (p patient) GetList(ctx context.Context, key string, options storage.ListOptions, into runtime.Object) error {
	return repeat(ctx, func() error { return p.Interface.GetList(ctx, key, options, into) })
}

func (p patient) GuaranteedUpdate(
	ctx context.Context, key string, into runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, update storage.UpdateFunc,
	cached runtime.Object,
) error {
	return repeat(ctx, func() error {
		return p.Interface.GuaranteedUpdate(ctx, key, into, ignoreNotFound, preconditions, update, cached)
	})
}

func (p patient) GetCurrentResourceVersion(ctx context.Context) (version uint64, err error) {
	err = repeat(ctx, func() error {
		version, err = p.Interface.GetCurrentResourceVersion(ctx)
		return err
	})
	return version, err
}
