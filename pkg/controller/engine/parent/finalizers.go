// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// pageSize is the number of parents in one answer of the API server where all have to be read.
const pageSize = 500

// FinalizerRemover removes the finalizers of a Declaration from its parents, without a Controller.
type FinalizerRemover struct {
	Kind     Kind
	Metadata metadata.Interface
	Writer   *objectwriter.Writer
	// Namespace of the parents; "" for all.
	Namespace string
}

// Remove removes the finalizer of a Declaration from all parents of a type, and returns the errors of those that keep it. It lists them from the
// API server: a watch may not have shown the last write yet. A type that the API server does not serve is an error that apierrors.IsNotFound
// recognizes: it may be served again.
func (r FinalizerRemover) Remove(ctx context.Context, of schema.GroupVersionResource, name string) error {
	finalizer := r.Kind.finalizer(name)
	options := metav1.ListOptions{Limit: pageSize}
	removed := 0
	var errs []error
	for {
		page, err := r.Metadata.Resource(of).Namespace(r.Namespace).List(ctx, options)
		if err != nil {
			return join(append(errs, fmt.Errorf("listing %s, to remove finalizers from them: %w", of.GroupResource(), err)))
		}
		having := slices.DeleteFunc(page.Items, func(parent metav1.PartialObjectMetadata) bool { return !slices.Contains(parent.Finalizers, finalizer) })
		failed := r.removeFromPage(ctx, of, having, finalizer)
		errs = append(errs, failed...)
		removed += len(having) - len(failed)
		if options.Continue = page.Continue; options.Continue == "" || slices.ContainsFunc(failed, isDenied) {
			klog.FromContext(ctx).Info("Removed the finalizers from parents", "kind", r.Kind, "name", name, "resource", of.GroupResource(), "parents", removed, "failed", len(errs))
			return join(errs)
		}
	}
}

func (r FinalizerRemover) removeFromPage(
	ctx context.Context, of schema.GroupVersionResource, parents []metav1.PartialObjectMetadata, finalizer string,
) (failed []error) {
	errs := make([]error, len(parents))
	controller.Parallel(len(parents), maxParallelWrites, func(i int) { errs[i] = r.removeFrom(ctx, of, &parents[i], finalizer) })
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func (r FinalizerRemover) removeFrom(
	ctx context.Context, of schema.GroupVersionResource, listed *metav1.PartialObjectMetadata, finalizer string,
) error {
	name := objectwriter.Name{Resource: of, Namespace: listed.Namespace, Name: listed.Name}
	err := r.release(ctx, name, listed, finalizer)
	if apierrors.IsNotFound(err) {
		err = r.checkGone(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("removing the finalizer from %s %s/%s: %w", name.Resource.GroupResource(), name.Namespace, name.Name, err)
	}
	return nil
}

// errUnserved is the error of an object that the API server has listed and does not find. It is no error that apierrors.IsNotFound recognizes: the
// object exists.
var errUnserved = errors.New("the API server has listed it, and does not find it: perhaps it does not serve the type for a while")

// checkGone returns nil if an object that the API server did not find is not listed any more.
func (r FinalizerRemover) checkGone(ctx context.Context, name objectwriter.Name) error {
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()}
	found, err := r.Metadata.Resource(name.Resource).Namespace(name.Namespace).List(ctx, byName)
	if apierrors.IsNotFound(err) || err == nil && len(found.Items) > 0 {
		return errUnserved
	}
	return err
}

// release removes the finalizer from a target as it was listed, which the engine has no right to get, and from any other parent as it is.
func (r FinalizerRemover) release(ctx context.Context, name objectwriter.Name, listed *metav1.PartialObjectMetadata, finalizer string) error {
	if r.Kind == Decorator {
		body, err := finalizersPatch(listed, without(listed.Finalizers, finalizer))
		if err == nil {
			_, err = r.Writer.Patch(ctx, name, body)
		}
		return err
	}
	parent, err := r.Writer.Get(ctx, name)
	if err == nil && hasFinalizer(parent, finalizer) {
		_, err = r.Kind.writeFinalizers(ctx, r.Writer, name, parent, without(parent.GetFinalizers(), finalizer))
	}
	return err
}

// writeVerb is the verb with which parents are written. Targets are of kinds that others have made, so nothing is sent of them that is to stay as it
// is.
func (k Kind) writeVerb() string {
	if k == Decorator {
		return "patch"
	}
	return "update"
}

// writeFinalizers writes an object with other finalizers, with the observed resourceVersion as a precondition.
func (k Kind) writeFinalizers(
	ctx context.Context, writer *objectwriter.Writer, name objectwriter.Name, observed object, finalizers []string,
) (*objectcache.RawObject, error) {
	if k == Decorator {
		body, err := finalizersPatch(observed, finalizers)
		if err != nil {
			return nil, err
		}
		return writer.Patch(ctx, name, body)
	}
	body, err := withFinalizers(observed, finalizers)
	if err != nil {
		return nil, err
	}
	return writer.Update(ctx, name, body)
}

func without(list []string, gone string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == gone })
}
