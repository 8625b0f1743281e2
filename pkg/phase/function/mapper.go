// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"

	"millwright.dev/pkg/phase"
)

const (
	// answerAge is how long an answer of discovery is used again, so that many phases at a time do not ask for the same.
	answerAge = 5 * time.Second
	// discoveryTimeout is how long the API server has to answer. It passes the question on to an aggregated API.
	discoveryTimeout = 10 * time.Second
)

// Mapper looks up which resource serves a kind, by discovery.
//
// What is found may be a few seconds old. What is not found was asked for after the look-up began, because it ends a phase, or has another object
// scaled. If the API server cannot answer for an API group at the moment, the error is a *phase.WaitError: then nothing is known about the group. A kind or
// resource that is not served is a NoMatch error of package meta.
type Mapper struct {
	client discovery.DiscoveryInterfaceWithContext

	// asking is held while the whole discovery is asked for, so that those who wait for it use one answer.
	asking sync.Mutex

	mu       sync.Mutex
	versions map[schema.GroupVersion]*answer[[]metav1.APIResource]
	all      *answer[*discovered]
}

// NewMapper returns a Mapper.
func NewMapper(client discovery.DiscoveryInterfaceWithContext) *Mapper {
	return &Mapper{client: client, versions: map[schema.GroupVersion]*answer[[]metav1.APIResource]{}}
}

// answer is an answer of discovery, with the time when it was asked for.
type answer[T any] struct {
	value T
	asked time.Time
}

// usable reports whether an answer can be used in a look-up that began at that time: it is newer than that, or it is recent, and finds what is looked for.
func (a *answer[T]) usable(began time.Time, finds func(T) bool) bool {
	return a != nil && (!a.asked.Before(began) || time.Since(a.asked) < answerAge && finds(a.value))
}

// servedResource is a resource that the API server serves.
type servedResource struct {
	schema.GroupVersionResource
	namespaced bool
	// scalable: it has a scale subresource.
	scalable bool
}

// target returns an object of the resource. The namespace is used if the resource is namespaced.
func (r servedResource) target(namespace, name string) target {
	t := target{Group: r.Group, APIVersion: r.Version, Resource: r.Resource, Name: name}
	if r.namespaced {
		t.Namespace = namespace
	}
	return t
}

// isFound is the least that a look-up is satisfied with. If a cached answer has less, the API server is asked.
func isFound(servedResource) bool { return true }

func isScalable(r servedResource) bool { return r.scalable }

// ofResource returns a resource.
func (m *Mapper) ofResource(ctx context.Context, of schema.GroupVersionResource) (servedResource, error) {
	return m.inVersion(ctx, time.Now(), of, isFound)
}

// ofKind returns the resource of a kind. Without a version, it is looked for in all versions of its group.
func (m *Mapper) ofKind(ctx context.Context, of schema.GroupVersionKind, satisfied func(servedResource) bool) (servedResource, error) {
	began := time.Now()
	if of.Version == "" {
		return m.inDiscovery(ctx, began, func(d *discovered) (schema.GroupVersionResource, error) { return d.ofKind(of.GroupKind()) }, satisfied)
	}
	noMatch := &meta.NoKindMatchError{GroupKind: of.GroupKind(), SearchedVersions: []string{of.Version}}
	return m.find(ctx, began, of.GroupVersion(), noMatch, satisfied, func(r *metav1.APIResource) bool {
		return r.Kind == of.Kind || strings.ToLower(r.Kind) == of.Kind
	})
}

// ofOwner returns the resource of a kind in an owner reference: in another version if the one of the reference is no longer served.
func (m *Mapper) ofOwner(ctx context.Context, of schema.GroupVersionKind) (servedResource, error) {
	found, err := m.ofKind(ctx, of, isScalable)
	if meta.IsNoMatchError(err) {
		found, err = m.ofKind(ctx, of.GroupKind().WithVersion(""), isScalable)
	}
	return found, err
}

// named returns the resource of a kind as users write it: helloapp, helloapps, helloapps.apps.anupam.com.
func (m *Mapper) named(ctx context.Context, name schema.GroupResource) (servedResource, error) {
	return m.inDiscovery(ctx, time.Now(), func(d *discovered) (schema.GroupVersionResource, error) { return d.named(name) }, isScalable)
}

// inServedVersion sends a request for an object that was looked up before. If the version of its resource is no longer served, the request is sent again for
// one that is. The error is NotFound if there is none.
func (m *Mapper) inServedVersion(ctx context.Context, t target, satisfied func(servedResource) bool, send func(target) error) error {
	err := send(t)
	if !isNotServed(err) {
		return err
	}
	found, lookErr := m.instead(ctx, t.resource(), satisfied)
	switch {
	case meta.IsNoMatchError(lookErr), lookErr == nil && !satisfied(found):
		return err
	case lookErr != nil:
		return lookErr
	case found.GroupVersionResource == t.resource():
		return disagree(t.resource())
	}
	t.APIVersion = found.Version
	return send(t)
}

// stillServed returns the error of a request for a resource that was looked up just before. If that is no longer served, what was cached of it is dropped,
// and the error is one after which both are retried.
func (m *Mapper) stillServed(of schema.GroupVersionResource, err error) error {
	if !isNotServed(err) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, of.GroupVersion())
	return fmt.Errorf("the API server no longer serves %s: looking for it again", of)
}

// disagree returns the error for a resource that is in discovery and is not served. Discovery is behind after a change of a CustomResourceDefinition, so the
// look-up is retried.
func disagree(of schema.GroupVersionResource) error {
	return fmt.Errorf("the API server lists %s in its discovery and does not serve it", of)
}

// instead returns the resource in the version in which it is served, after a request for this version was not.
func (m *Mapper) instead(ctx context.Context, of schema.GroupVersionResource, satisfied func(servedResource) bool) (servedResource, error) {
	began := time.Now()
	all, err := m.discover(ctx, began, func(d *discovered) bool {
		found, err := d.ofResource(of.GroupResource())
		return !meta.IsNoMatchError(err) && found != of
	})
	if err != nil {
		return servedResource{}, err
	}
	resource, err := all.ofResource(of.GroupResource())
	if err != nil {
		return servedResource{}, err
	}
	found, err := m.inVersion(ctx, began, resource, satisfied)
	if meta.IsNoMatchError(err) {
		return found, disagree(resource)
	}
	return found, err
}

// inDiscovery looks for a resource in the whole discovery, and then in the resources of its version. If that does not satisfy, a cached discovery was stale,
// and is asked for again.
func (m *Mapper) inDiscovery(
	ctx context.Context, began time.Time, find func(*discovered) (schema.GroupVersionResource, error), satisfied func(servedResource) bool,
) (servedResource, error) {
	for stale := false; ; stale = true {
		all, err := m.discover(ctx, began, func(d *discovered) bool {
			_, err := find(d)
			return !stale && !meta.IsNoMatchError(err) // while a group is unavailable, it is asked for in intervals
		})
		if err != nil {
			return servedResource{}, err
		}
		resource, err := find(all)
		if err != nil {
			return servedResource{}, err
		}
		found, err := m.inVersion(ctx, began, resource, satisfied)
		negative := meta.IsNoMatchError(err) || err == nil && !satisfied(found)
		if negative && !stale && all.asked.Before(began) {
			continue
		}
		if meta.IsNoMatchError(err) {
			err = disagree(resource)
		}
		return found, err
	}
}

func (m *Mapper) inVersion(
	ctx context.Context, began time.Time, of schema.GroupVersionResource, satisfied func(servedResource) bool,
) (servedResource, error) {
	noMatch := &meta.NoResourceMatchError{PartialResource: of}
	return m.find(ctx, began, of.GroupVersion(), noMatch, satisfied, func(r *metav1.APIResource) bool { return r.Name == of.Resource })
}

// find looks for a resource of one version of a group. A cached answer is used if it satisfies.
func (m *Mapper) find(
	ctx context.Context, began time.Time, version schema.GroupVersion, noMatch error,
	satisfied func(servedResource) bool, matches func(*metav1.APIResource) bool,
) (servedResource, error) {
	if !isVersion(version) {
		return servedResource{}, noMatch
	}
	m.mu.Lock()
	known := m.versions[version]
	m.mu.Unlock()
	usable := known.usable(began, func(list []metav1.APIResource) bool {
		found, ok := resourceIn(version, list, matches)
		return ok && satisfied(found)
	})
	if !usable {
		var err error
		if known, err = m.askVersion(ctx, version); err != nil {
			return servedResource{}, err
		}
	}
	found, ok := resourceIn(version, known.value, matches)
	if !ok {
		return servedResource{}, noMatch
	}
	return found, nil
}

// isVersion reports whether an API server can serve such a version. It is a part of the path of a request, and may be written by a user.
func isVersion(version schema.GroupVersion) bool {
	return (version.Group == "" || len(validation.IsDNS1123Subdomain(version.Group)) == 0) && len(validation.IsDNS1035Label(version.Version)) == 0
}

// resourceIn returns the first resource of a version that matches. Subresources are no resources.
func resourceIn(version schema.GroupVersion, list []metav1.APIResource, matches func(*metav1.APIResource) bool) (servedResource, bool) {
	at := slices.IndexFunc(list, func(r metav1.APIResource) bool { return !strings.Contains(r.Name, "/") && matches(&r) })
	if at < 0 {
		return servedResource{}, false
	}
	name := list[at].Name
	return servedResource{
		GroupVersionResource: version.WithResource(name),
		namespaced:           list[at].Namespaced,
		scalable:             slices.ContainsFunc(list, func(r metav1.APIResource) bool { return r.Name == name+"/scale" }),
	}, true
}

// askVersion asks for the resources of one version of a group. Those of a version that is not served are not kept: users can name any number of them.
func (m *Mapper) askVersion(ctx context.Context, version schema.GroupVersion) (*answer[[]metav1.APIResource], error) {
	asking, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	asked := time.Now()
	list, err := m.client.ServerResourcesForGroupVersionWithContext(asking, version.String())
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		found := &answer[[]metav1.APIResource]{list.APIResources, asked}
		m.versions[version] = found
		return found, nil
	case apierrors.IsNotFound(err):
		delete(m.versions, version)
		return &answer[[]metav1.APIResource]{asked: asked}, nil
	case ctx.Err() == nil && isUnavailable(err):
		return nil, waitForGroups([]string{version.Group}, err.Error())
	default:
		return nil, fmt.Errorf("asking the API server which resources of %s it serves: %w", version, err)
	}
}

// isUnavailable reports whether an error is about the group that was asked for: no connection, and an API server with too many requests, concern every
// request.
func isUnavailable(err error) bool {
	var status apierrors.APIStatus
	general := apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err)
	return errors.As(err, &status) && !general || errors.Is(err, context.DeadlineExceeded)
}

// waitForGroups returns the error of a look-up that the API server cannot answer before these API groups are available.
func waitForGroups(groups []string, details string) error {
	what := "the API group "
	if len(groups) > 1 {
		what = "the API groups "
	}
	return &phase.WaitError{Waiting: phase.Waiting{For: what + strings.Join(groups, ", ") + " to be available", Details: details}}
}

// isNotServed reports whether an API server does not serve a resource. Then its answer is that of a path it does not know, without a Status.
func isNotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
