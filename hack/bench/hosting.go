// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/parents"
	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	typed "millwright.dev/pkg/generated/clientset/versioned/typed/metacontroller/v1alpha1"
)

const (
	// stageLabel of a parent names the CompositeController whose it is: each measurement has one of its own, so that what others
	// have left behind need not be removed first.
	stageLabel = "stage"
	// parentsAtOnce is how many parents the operator works on at the same time, and callsAtOnce how many of them call one hook.
	parentsAtOnce, callsAtOnce = 8 * workers, 2 * workers
)

// onlyHosting are the flags of an operator that serves CompositeControllers, and nothing else.
var onlyHosting = []string{"--controllers=compositecontroller"}

// hosting is a CompositeController, with parents in a namespace of their own, and the operator that serves it.
type hosting struct {
	*population
	bench       *bench
	controllers typed.CompositeControllerInterface
	controller  *v1alpha1.CompositeController
	stage       map[string]string // the labels of parents
	seen        *observer         // of all that is in the namespace
	access      string            // the kubeconfig of the engine
	engine      *operator         // nil while there is none
	stopping    *atomic.Bool      // tells that the engine has not ended by itself
	fail        func(error)       // ends what waits for the engine
}

// host makes a CompositeController for as long as do takes. Whoever wants an operator starts it.
func (b *bench) host(ctx context.Context, stage string, parentCount int, do func(context.Context, *hosting) error) error {
	if err := b.prepareHosting(ctx); err != nil {
		return err
	}
	h := &hosting{
		bench:       b,
		controllers: b.client.MetacontrollerV1alpha1().CompositeControllers(),
		stage:       map[string]string{stageLabel: stage},
		seen:        newObserver(),
		access:      b.kubeconfig(),
	}
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	h.fail = fail
	err := h.make(working, stage, parentCount)
	if err == nil {
		err = do(working, h)
	}
	if err = errors.Join(err, h.stopEngine()); err != nil {
		return fmt.Errorf("CompositeController %s: %w", stage, err)
	}
	// It has no finalizer, since its hook has no finalize.
	return h.controllers.Delete(ctx, stage, metav1.DeleteOptions{})
}

// make the CompositeController, and watch its parents and their children until the context ends.
func (h *hosting) make(ctx context.Context, stage string, parentCount int) (err error) {
	if h.population, err = h.bench.newPopulation(ctx, parentCount); err != nil {
		return err
	}
	if h.controller, err = h.controllers.Create(ctx, h.bench.compositeController(stage), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating it: %w", err)
	}
	return errors.Join(h.observeParents(ctx, h.seen), h.observeChildren(ctx, h.seen))
}

// prepareHosting makes what all CompositeControllers of a run share: the kind of their parents, and their hook.
func (b *bench) prepareHosting(ctx context.Context) error {
	if b.hook != nil {
		return nil
	}
	path := filepath.Join(b.dir, "crd.yaml")
	if err := os.WriteFile(path, parents.CRD, 0o600); err != nil {
		return err
	}
	if err := b.installCRDs(ctx, path); err != nil {
		return err
	}
	return b.startHook(ctx, "127.0.0.1:0")
}

var hookLine = regexp.MustCompile(`(?m)^listening on (\S+)$`)

// startHook starts the hook as a process of its own, so that its CPU is not the operator's.
func (b *bench) startHook(ctx context.Context, address string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program, to run it as the hook: %w", err)
	}
	if b.hook, err = startProcess(b.dir, "hook", nil, self, hookCommand, address); err != nil {
		return err
	}
	return b.hook.await(ctx, "the hook to listen", func() bool {
		log, err := os.ReadFile(b.hook.log)
		match := hookLine.FindSubmatch(log)
		if err != nil || match == nil {
			return false
		}
		b.hookAddress = string(match[1])
		return true
	})
}

func (b *bench) stopHook() error {
	if b.hook == nil {
		return nil
	}
	hook := b.hook
	b.hook = nil
	return hook.stop()
}

func (b *bench) hookURL(query string) string { return "http://" + b.hookAddress + "/sync" + query }

// compositeController whose parents have a label, and ConfigMaps as children.
func (b *bench) compositeController(stage string) *v1alpha1.CompositeController {
	return &v1alpha1.CompositeController{
		ObjectMeta: metav1.ObjectMeta{Name: stage},
		Spec: v1alpha1.CompositeControllerSpec{
			ParentResource: v1alpha1.CompositeControllerParentResourceRule{
				ResourceRule:  v1alpha1.ResourceRule{APIVersion: parents.Resource.GroupVersion().String(), Resource: parents.Resource.Resource},
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{stageLabel: stage}},
			},
			ChildResources: []v1alpha1.CompositeControllerChildResourceRule{{
				ResourceRule:   v1alpha1.ResourceRule{APIVersion: "v1", Resource: "configmaps"},
				UpdateStrategy: &v1alpha1.CompositeControllerChildUpdateStrategy{Method: v1alpha1.ChildUpdateInPlace},
			}},
			Hooks: &v1alpha1.CompositeControllerHooks{Sync: &v1alpha1.Hook{Webhook: &v1alpha1.Webhook{URL: ptr.To(b.hookURL(""))}}},
		},
	}
}
