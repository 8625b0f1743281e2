// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/related"
)

// view is a parent as the hooks are called about it: as it is, and in a rolling update as it was in each older revision that children still have.
type view struct {
	// revision is nil if no children roll.
	revision *revision
	isOlder  bool
	// parent as hooks see it.
	parent  object
	related related.Selection
	answer  *hook.Answer
	decoded *answer
	// last is what was decoded of the answer before, nil if that is not kept.
	last *decodedChildren
}

// older returns the name of an older revision, "" for the parent as it is.
func (v *view) older() string {
	if v.isOlder {
		return v.revision.name
	}
	return ""
}

// cacheKey returns the key of the answers about the view.
func (v *view) cacheKey(uid types.UID) string { return cacheKey(uid, v.older()) }

func cacheKey(uid types.UID, older string) string {
	if older == "" {
		return string(uid)
	}
	return string(uid) + "/" + older
}

// views returns the views of the parent, as it is first.
func (s *parentSync) views() ([]*view, error) {
	if !s.spec.rolls || !s.spec.managesChildren(s.parent) {
		s.keepOlder(nil)
		s.state.decoded = nil
		return []*view{{parent: s.parent}}, nil
	}
	records := asObjects(s.records.OwnedBy(s.parent.GetUID(), s.key.Namespace))
	slices.SortFunc(records, func(a, b object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	revisions, strays, err := s.spec.revisionsOf(s.of.parentType, s.parent, records)
	if err != nil {
		return nil, err
	}
	s.strays = strays
	views := make([]*view, len(revisions))
	var older []string
	for i := range revisions {
		v := &view{revision: &revisions[i], parent: s.parent, isOlder: i > 0}
		if v.isOlder {
			if v.parent, err = s.spec.materialise(s.parent, revisions[i]); err != nil {
				return nil, err
			}
			older = append(older, v.revision.name)
		}
		views[i] = v
	}
	s.keepOlder(older)
	s.recallDecoded(views)
	return views, nil
}

// isRolling reports whether children have an older revision.
func (s *parentSync) isRolling() bool { return s.state.decoded != nil }

// recallDecoded recalls what was decoded of the answers of the last sync, while a rolling update lasts: from sync to sync the children in them rarely change.
func (s *parentSync) recallDecoded(views []*view) {
	before := s.state.decoded
	s.state.decoded = nil
	if len(views) == 1 {
		return
	}
	s.state.decoded = make(map[string]*decodedChildren, len(views))
	for _, v := range views {
		if v.last = before[v.revision.name]; v.last == nil {
			v.last = &decodedChildren{}
		}
		s.state.decoded[v.revision.name] = v.last
	}
}

// keepOlder forgets what is known of older revisions except these.
func (s *parentSync) keepOlder(names []string) {
	for _, gone := range s.older.set(s.key, names) {
		s.forgetAnswers(s.parent.GetUID(), gone)
		s.releaseRelated(s.key, gone)
		delete(s.state.customized, gone)
	}
}

// callHooks calls the hook of this sync about each view, concurrently.
func (s *parentSync) callHooks(ctx context.Context, children *children, views []*view) error {
	called := s.hooks[s.called]
	requests, errs := s.requests(called.Version(), children, views), make([]error, len(views))
	controller.Parallel(len(views), len(views), func(i int) {
		views[i].answer, errs[i] = s.call(ctx, called, views[i], requests[i])
	})
	for i, v := range views {
		errs[i] = v.about(errs[i])
	}
	return cmp.Or(errs...)
}

// about returns an error of a hook with the older revision that the hook was called about: nothing else in the error shows that.
func (v *view) about(err error) error {
	if err == nil || !v.isOlder {
		return err
	}
	return fmt.Errorf("about the parent as it was in the ControllerRevision %s: %w", v.revision.name, err)
}

func releaseAnswers(views []*view) {
	for _, v := range views {
		if v.answer != nil {
			v.answer.Release()
		}
	}
}

// decodeAnswer decodes the answer about a view.
func (s *parentSync) decodeAnswer(ctx context.Context, v *view) error {
	if err := v.answer.Reserve(ctx); err != nil {
		return err
	}
	of := s.hooks[s.called]
	rules := of.Rules()
	if v.last != nil {
		rules.Known = &v.last.known
	}
	decoded, err := s.spec.decode(v.answer.Body, rules, s.parent)
	if err != nil {
		return v.about(err)
	}
	if decoded.Recalled {
		decoded.desired = v.last.desired
	} else if v.last != nil {
		v.last.desired = decoded.desired
	}
	for _, warning := range decoded.Warnings {
		klog.FromContext(ctx).V(2).Info("The answer of the hook has a defect", "hook", of.URL(), "warning", warning)
	}
	v.decoded = decoded
	return nil
}

// sumsOf returns a hash of the answers, with the versions of the records, and one of the versions of the related objects.
func sumsOf(views []*view) (answered, related uint64) {
	if len(views) == 1 && views[0].revision == nil {
		return views[0].answer.Sum, views[0].related.Sum
	}
	type sums struct {
		answered, related, before uint64
		record                    string
	}
	for _, v := range views {
		record := ""
		if v.revision.record != nil {
			record = v.revision.record.GetResourceVersion()
		}
		answered = maphash.Comparable(seed, sums{answered: v.answer.Sum, before: answered, record: record})
		related = maphash.Comparable(seed, sums{related: v.related.Sum, before: related})
	}
	return answered, related
}

// rolling returns the revisions of the views with their answers, nil if no children roll.
func (s *parentSync) rolling(views []*view) (revisions []revisionAnswer) {
	for _, v := range views {
		if v.revision != nil {
			revisions = append(revisions, revisionAnswer{*v.revision, v.decoded})
		}
	}
	return revisions
}

// errRecordTaken is the error of a ControllerRevision whose name another object has.
var errRecordTaken = errors.New("an object of that name exists that this parent does not own: delete it")

// errRecordStale is why a ControllerRevision could not be written: our watch has not shown it as it is.
var errRecordStale = errors.New("the cache is stale")

// applyRecords writes ControllerRevisions, concurrently: whichever of them are written, a child is claimed by the latest revision, by the one that it
// has, or by none, and then it waits for its turn. What they record is done only afterwards.
func (s *parentSync) applyRecords(ctx context.Context, steps []childStep) error {
	results := make([]stepResult, len(steps))
	controller.Parallel(len(steps), maxParallelWrites, func(i int) { results[i] = s.applyStep(ctx, steps[i]) })
	errs := make([]error, len(steps))
	for i, r := range results {
		switch step := steps[i]; {
		case r.err != nil:
			errs[i] = r.err
		case r.foreign:
			errs[i] = fmt.Errorf("%s: %w", step, errRecordTaken)
		case !r.done && step.verb != verbDelete:
			errs[i] = apierrors.NewConflict(step.in.GroupResource(), step.child.name, errRecordStale)
		case r.done:
			s.changed = true
			if r.resourceVersion != "" {
				s.recordWrite(s.records, r.resourceVersion)
			}
		}
	}
	return cmp.Or(errs...)
}

// relatedKey is the key of the related objects of a parent as it is, or as it was in an older revision.
type relatedKey struct {
	Key
	older string
}

// relatedChanged queues parents whose related objects have changed.
func (c *Controller) relatedChanged(keys ...relatedKey) {
	parents := sets.New[Key]()
	for _, k := range keys {
		parents.Insert(k.Key)
	}
	c.Queue.Enqueue(parents.UnsortedList()...)
}

func (c *Controller) releaseRelated(k Key, older string) {
	if c.related != nil {
		c.related.Release(relatedKey{k, older})
	}
}

// forgetAnswers forgets the answers of hooks about a parent in an older revision, or "" for the parent as it is.
func (c *Controller) forgetAnswers(uid types.UID, older string) {
	for _, hook := range c.hooks {
		hook.Forget(cacheKey(uid, older))
	}
}

// olderRevisions are the names of the older revisions of parents. The zero value is empty.
type olderRevisions struct {
	mu    sync.Mutex
	names map[Key][]string
}

// set sets the names of a parent, and returns those that it had before and has no more.
func (o *olderRevisions) set(parent Key, names []string) (gone []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	gone = slices.DeleteFunc(o.names[parent], func(name string) bool { return slices.Contains(names, name) })
	switch {
	case len(names) == 0:
		delete(o.names, parent)
	case o.names == nil:
		o.names = map[Key][]string{parent: names}
	default:
		o.names[parent] = names
	}
	return gone
}
