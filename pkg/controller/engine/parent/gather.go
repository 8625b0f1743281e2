// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"cmp"
	"context"
	"errors"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
)

// readSelector reads the selector of the parent, if its spec has changed.
func (s *parentSync) readSelector() error {
	isNew := false
	s.state, isNew = s.Controller.state(s.of, s.key.objectName(), s.parent.GetUID())
	s.takeOverDefinitions()
	version := specVersionOf(s.parent)
	if s.state.selector != nil && s.state.specVersion == version {
		return nil
	}
	selector, err := s.spec.selectorOf(s.parent)
	if err != nil {
		return err
	}
	before := s.state.selector
	s.state.selector, s.state.specVersion, s.state.children = selector, version, nil
	if before != nil && before.String() == selector.String() {
		return nil
	}
	if s.spec.kind == Decorator {
		return nil // attachments are not adopted
	}
	if isNew && s.spec.generateSelector {
		s.orphans.setUID(s.key, s.parent.GetUID(), selector)
		return nil
	}
	s.orphans.setSelector(s.key, selector)
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
	listed := s.listChildren()
	if last := s.state.children; s.isRolling() && last != nil && last.update(listed, s.spec.children, s.isChild) {
		return last, nil
	}
	s.state.children = nil
	var adoptions []adoption
	var errs []error
	claimed := make([]claims, len(listed))
	for i, of := range s.spec.children {
		claimed[i] = s.claim(of.Resource, asObjects(listed[i].owned), asObjects(listed[i].orphans))
		for _, o := range claimed[i].release {
			errs = append(errs, s.releaseChild(ctx, i, of.Resource, o))
		}
		for _, o := range claimed[i].adopt {
			adoptions = append(adoptions, adoption{i, of.Resource, o})
		}
		s.refused = cmp.Or(s.refused, adoptionRefused(s.parent, s.state.selector, of.Resource, claimed[i]))
	}
	if len(adoptions) > 0 {
		adopted, err := s.adopt(ctx, adoptions)
		if s.parent == nil {
			return nil, nil // there is no object to report errors on
		}
		if err != nil {
			return nil, errors.Join(append(errs, err)...)
		}
		for i, list := range adopted {
			claimed[i].children = append(claimed[i].children, list...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	found := s.spec.grouped(claimed)
	if s.isRolling() {
		found.setListed(listed)
		s.state.children = found
	}
	return found, nil
}

// candidates are the objects of one type that may be children.
type candidates struct{ owned, orphans []*objectcache.RawObject }

// listChildren lists the objects of each type that may be children. Attachments are not adopted.
func (s *parentSync) listChildren() []candidates {
	found := make([]candidates, len(s.Controller.children))
	for i, handle := range s.Controller.children {
		found[i].owned = handle.OwnedBy(s.parent.GetUID(), s.key.Namespace)
		if s.spec.kind == Composite {
			found[i].orphans = s.orphans.list(s.key, i, handle.Get)
		}
	}
	return found
}

// claim finds the children among the objects of one type that the parent owns, and the orphans.
func (s *parentSync) claim(of Resource, owned, orphans []object) claims {
	if s.spec.kind == Decorator {
		return s.spec.claimAttachments(owned)
	}
	isParent := func(o object) bool {
		return of.GroupResource() == s.of.GroupResource() && s.spec.isParent(s.of.parentType, o)
	}
	return s.spec.claim(s.parent, s.state.selector, owned, orphans, isParent)
}

// isChild reports whether an object that the parent owns is a child.
func (s *parentSync) isChild(o object) bool {
	return len(s.claim(s.of.Resource, []object{o}, nil).children) == 1
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

// requests returns the requests to the hook of this sync about the views of the parent.
func (s *parentSync) requests(version hook.Version, children *children, views []*view) []*hook.Request {
	requests := make([]*hook.Request, len(views))
	for i, v := range views {
		if i > 0 && !s.spec.customize {
			requests[i] = requests[0].WithParent(v.parent.JSON())
		} else {
			requests[i] = s.request(version, children, v)
		}
	}
	return requests
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
