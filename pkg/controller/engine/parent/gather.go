// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"
	"hash/maphash"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
)

// children are the objects of all types that the parent owns.
type children struct {
	groups []hook.Group
	byKey  map[childKey]object
	// versions is a hash of the versions of parent and children.
	versions uint64
}

// readSelector reads the selector of the parent, if its spec has changed.
func (s *parentSync) readSelector() error {
	isNew := false
	s.state, isNew = s.Controller.state(s.of, s.key.objectName(), s.parent.GetUID())
	version := specVersionOf(s.parent)
	if s.state.selector != nil && s.state.specVersion == version {
		return nil
	}
	selector, err := s.spec.selectorOf(s.parent)
	if err != nil {
		return err
	}
	before := s.state.selector
	s.state.selector, s.state.specVersion = selector, version
	if before != nil && before.String() == selector.String() {
		return nil
	}
	if s.spec.kind == Decorator {
		return nil // attachments are not adopted
	}
	s.orphans.setSelector(s.key, selector)
	if isNew && s.spec.generateSelector {
		return nil // the selector is the UID of a new parent, which no object can have in its labels yet
	}
	for i, handle := range s.Controller.children {
		for _, o := range handle.Ownerless(s.key.Namespace, selector) {
			s.orphans.add(s.key, location{i, o.GetNamespace(), o.GetName()})
		}
	}
	return nil
}

// gather finds the children, adopts orphans and releases what is not selected any more. s.parent is nil afterwards if the parent was deleted
// or replaced.
func (s *parentSync) gather(ctx context.Context) (*children, error) {
	var adoptions []adoption
	var errs []error
	claimed := make([]claims, len(s.spec.children))
	for i, of := range s.spec.children {
		handle := s.Controller.children[i]
		if s.spec.kind == Decorator {
			claimed[i] = s.spec.claimAttachments(asObjects(handle.OwnedBy(s.parent.GetUID(), s.key.Namespace)))
			continue
		}
		claimed[i] = claim(s.parent, s.state.selector,
			asObjects(handle.OwnedBy(s.parent.GetUID(), s.key.Namespace)), asObjects(s.orphans.list(s.key, i, handle.Get)))
		for _, o := range claimed[i].release {
			errs = append(errs, s.releaseChild(ctx, i, of.Resource, o))
		}
		for _, o := range claimed[i].adopt {
			adoptions = append(adoptions, adoption{i, of.Resource, o})
		}
	}
	if len(adoptions) > 0 {
		adopted, err := s.adopt(ctx, adoptions)
		if err != nil || s.parent == nil {
			return nil, errors.Join(append(errs, err)...)
		}
		for i, list := range adopted {
			claimed[i].children = append(claimed[i].children, list...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s.grouped(claimed), nil
}

// grouped returns the claimed children as hooks see them, and as plans do.
func (s *parentSync) grouped(claimed []claims) *children {
	found := &children{byKey: map[childKey]object{}}
	var versions maphash.Hash
	versions.SetSeed(seed)
	versions.WriteString(s.parent.GetResourceVersion())
	for i, of := range s.spec.children {
		group := hook.Group{APIVersion: of.apiVersion(), Kind: of.Kind, Objects: make([]hook.Object, len(claimed[i].children))}
		for j, o := range claimed[i].children {
			group.Objects[j] = hook.Object{Namespace: o.GetNamespace(), Name: o.GetName(), JSON: o.JSON()}
			found.byKey[of.key(o.GetNamespace(), o.GetName())] = o
			versions.WriteString(string(o.GetUID()))
			versions.WriteString(o.GetResourceVersion())
		}
		found.groups = append(found.groups, group)
	}
	found.versions = versions.Sum64()
	return found
}

func asObjects(list []*objectcache.RawObject) []object {
	objects := make([]object, len(list))
	for i, o := range list {
		objects[i] = o
	}
	return objects
}

// call calls a hook about a view of the parent. The call ends when the Controller is stopped.
func (s *parentSync) call(ctx context.Context, called *hook.Hook, v *view, request *hook.Request) (*hook.Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls, cancel)()
	controller.ExtendSyncLimit(ctx, called.Longest())
	return called.Call(ctx, v.cacheKey(s.parent.GetUID()), request)
}

// request returns the request to the hook of this sync about a view of the parent.
func (s *parentSync) request(version hook.Version, children *children, v *view) *hook.Request {
	finalizing := s.called == phaseFinalize
	if s.spec.kind == Decorator {
		return hook.NewDecoratorRequest(version, hook.DecoratorRequest{
			Controller:      *s.controllerJSON.Load(),
			Object:          s.parent.JSON(),
			ObjectNamespace: s.key.Namespace,
			Attachments:     children.groups,
			Related:         v.related.Groups,
			Finalizing:      finalizing,
		})
	}
	return hook.NewCompositeRequest(version, hook.CompositeRequest{
		Controller:      *s.controllerJSON.Load(),
		Parent:          v.parent.JSON(),
		ParentNamespace: s.key.Namespace,
		Children:        children.groups,
		Related:         v.related.Groups,
		Finalizing:      finalizing,
	})
}
