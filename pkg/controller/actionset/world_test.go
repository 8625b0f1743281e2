// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// world is a pure and tiny API server with one ActionSet, the functions of its phases, and one controller process. It checks at
// each step what must hold at every instant.
type world struct {
	t           testing.TB
	blueprints  map[string]*v1alpha1.Blueprint
	history     []*v1alpha1.ActionSet // the last one is the newest; nil if the ActionSet is gone
	run         *corev1.Secret
	snapshots   int  // the number of Secrets that were created
	snapshotBy  int  // the process that created the last one
	terminating bool // the namespace is terminating
	now         time.Time

	// process is the identity of the controller, and sees which version its cache has.
	process, sees int
	rendered      sets.Set[phaseKey]
	prepareAgain  map[phaseKey]time.Time
	continued     sets.Set[phaseKey]
	round         sets.Set[roundKey]
	said          string
	calls         map[phaseKey]*call
	events        []string
	writes        int
	faults        []string

	// ending is how a phase goes that was started; running if there is none.
	ending map[phaseKey]phase.Observation
	// most is how many asks of a round a sync answers, and how many phases it starts or stops; 0 is no limit.
	// acted is how many phases the sync has started or stopped.
	most, acted int
	// stubborn phases do not stop.
	stubborn map[phaseKey]bool
	// unknown is the number of asks that are not answered; failing reports for which further asks that is so.
	unknown int
	failing func(controller.Ask) bool
	// unread is the number of syncs of a run that cannot read its snapshot, and unreadSince when the first of them was.
	unread      int
	unreadSince time.Time
	// notRendered: preparations that are not answered have rendered nothing. alone is how many asks were answered in syncs that were alone.
	// neverAlone: a sync cannot be alone.
	notRendered, neverAlone bool
	alone                   int
	// kills reports whether an ask ends the process.
	kills func(controller.Ask) bool
	// dies is after how many steps of this process it is killed; 0 is never. Where late is true the last one takes effect.
	dies int
	late bool
	// held are writes of processes that were killed, which take effect when they are let through.
	hold bool
	held []func()
}

// call is one call of a function, and what it leaves.
type call struct {
	begun   int // how often its effect has happened
	present bool
	process int
	state   phase.State
	// made counts the objects that were made for it, of which the last one exists. While gated is true, that object does nothing.
	made  int
	gated bool
}

var (
	errKilled   = errors.New("the process was killed")
	errConflict = errors.New("the object has been modified")
)

func newWorld(t testing.TB, set *v1alpha1.ActionSet, blueprint *v1alpha1.Blueprint) *world {
	return &world{
		t: t, blueprints: map[string]*v1alpha1.Blueprint{blueprint.Name: blueprint}, history: []*v1alpha1.ActionSet{set},
		now: noon, process: 1, calls: map[phaseKey]*call{},
		prepareAgain: map[phaseKey]time.Time{}, ending: map[phaseKey]phase.Observation{}, stubborn: map[phaseKey]bool{},
	}
}

func (w *world) set() *v1alpha1.ActionSet { return w.history[len(w.history)-1] }

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *world) change(change func(*v1alpha1.ActionSet)) {
	set := w.set().DeepCopy()
	change(set)
	version, _ := strconv.Atoi(set.ResourceVersion)
	set.ResourceVersion = strconv.Itoa(version + 1)
	if set.DeletionTimestamp != nil && len(set.Finalizers) == 0 {
		set = nil
	}
	w.history = append(w.history, set)
}

// What users do.

func (w *world) cancel() {
	w.change(func(set *v1alpha1.ActionSet) { set.Spec.Cancel, set.Generation = true, set.Generation+1 })
}

func (w *world) delete() {
	w.change(func(set *v1alpha1.ActionSet) {
		if set.DeletionTimestamp == nil {
			at := metav1.NewTime(w.now)
			set.DeletionTimestamp = &at
		}
	})
}

// restart is another process. Where lag is more than zero, its cache begins in the past.
func (w *world) restart(lag int) {
	w.process++
	w.dies, w.late, w.said, w.rendered, w.continued, w.round, w.prepareAgain = 0, false, "", nil, nil, nil, map[phaseKey]time.Time{}
	w.sees = max(len(w.history)-1-lag, 0)
	for _, c := range w.calls {
		if c.process != 0 {
			c.present = false // a stream ends with its process
		}
	}
}

// look is what the process observes.
func (w *world) look() *observed {
	set := w.history[w.sees]
	if set == nil {
		return nil
	}
	o := observe(set.DeepCopy())
	o.blueprints, o.namespaceTerminating, o.executor, o.now, o.recordedEvent = w.blueprints, w.terminating, fmt.Sprint("process ", w.process), w.now, w.said
	o.rendered, o.continued, o.round, o.outOfTime = w.rendered, w.continued, w.round.Clone(), sets.New[roundKind]()
	o.prepared, o.polled, o.artifacts = map[phaseKey]preparation{}, map[phaseKey]phase.Observation{}, map[int]renderedArtifacts{}
	if w.run != nil {
		r, err := readSnapshot(set, w.run)
		if err != nil {
			o.snapshotDamage, o.foreignSnapshot = err.Error(), hasFinished(set.Status)
		}
		o.snapshot, o.snapshotID = r, snapshotIDOf(w.run)
		o.takenOver = w.snapshotBy != w.process && (set.Status == nil || !executedBy(set.Status, o.executor))
	}
	for key, c := range w.calls {
		if c.present && w.traits(key).LeavesBehind {
			o.leftovers = append(o.leftovers, key)
		}
	}
	if hasStarted(set.Status) && !hasFinished(set.Status) && !w.terminating {
		w.hideSnapshot(&o)
	}
	o.prepareAgain = w.prepareAgain
	if o.alone = suspectAction(o); w.neverAlone {
		o.alone = nil
	}
	return &o
}

// hideSnapshot is a failure to read the snapshot, if one is due.
func (w *world) hideSnapshot(o *observed) {
	if w.unread == 0 {
		w.unreadSince = time.Time{}
		return
	}
	if w.unread--; w.unreadSince.IsZero() {
		w.unreadSince = w.now
	}
	o.snapshot, o.snapshotID, o.takenOver, o.leftovers, o.leftUnknown = nil, nil, false, nil, true
	o.waiting = map[phaseKey]phaseWait{ofSnapshot.phaseKey: {phase.Waiting{For: "its snapshot"}, w.unreadSince}}
}

func (w *world) traits(key phaseKey) phase.Traits {
	return phase.TraitsOf(w.function(key))
}

func (w *world) function(key phaseKey) string {
	action := w.blueprints["bp"].Actions[w.history[0].Spec.Actions[key.action].Name]
	if key.phase == phase.Deferred {
		return action.DeferPhase.Func
	}
	return action.Phases[key.phase].Func
}

// sync is one sync: it asks, decides and acts until nothing is left to do without waiting.
func (w *world) sync() error {
	o := w.look()
	if o == nil {
		for key, c := range w.calls { // a process that finds something of an ActionSet that is gone removes it
			c.present = c.present && !w.traits(key).LeavesBehind
		}
		return nil
	}
	done, asked := &share{}, map[bool]int{} // artifacts have a number of their own
	w.acted = 0
	for range 100 {
		p := decide(*o)
		if len(p.Asks) > 0 {
			for _, a := range p.Asks {
				if part, ok := a.(roundPart); ok && w.most > 0 && part.about().kind != roundFirstArtifacts {
					kind := part.about().kind
					if asked[kind == roundArtifacts] >= w.most {
						o.outOfTime.Insert(kind)
						continue
					}
					asked[kind == roundArtifacts]++
				}
				if w.kills != nil && w.kills(a) {
					return errKilled
				}
				w.answer(o, a)
				if part, ok := a.(roundPart); ok {
					done.finish(part.about())
				}
			}
			continue
		}
		again, err := w.apply(o, p, done)
		if err != nil && !errors.Is(err, errNotActed) {
			return err
		}
		if err == nil && again {
			continue
		}
		if w.round = w.round.Union(done.done); err == nil && o.outOfTime.Len() == 0 {
			w.round = nil
		}
		return nil
	}
	w.fault("a sync never ends")
	return nil
}

func (w *world) answer(o *observed, a controller.Ask) {
	cannot := w.unknown > 0 || w.failing != nil && w.failing(a)
	if o.alone != nil {
		w.alone++
	}
	if w.unknown > 0 {
		w.unknown--
	}
	switch a := a.(type) {
	case lookUpSubjects:
		o.subjects = make([]foundSubject, len(o.set.Spec.Actions))
		if cannot {
			o.subjects[0].retry = true
		}
	case preparePhase:
		rendered := !cannot || !w.notRendered
		o.prepared[a.key] = preparation{lookupResult: lookupResult{retry: cannot}, rendered: rendered, intent: map[string]any{"name": a.key.String()}}
		if rendered {
			w.rendered = w.rendered.Union(sets.New(a.key))
			o.rendered = w.rendered
		} else {
			w.prepareAgain[a.key] = w.now.Add(prepareInterval)
		}
	case pollPhase:
		o.polled[a.key] = w.poll(a.key, intentOf(o, a.key))
		if cannot {
			o.polled[a.key] = phase.Observation{}
		}
		w.continued = w.continued.Union(sets.New(a.key))
		o.continued = w.continued
	case renderArtifacts:
		o.artifacts[a.action] = renderedArtifacts{lookupResult{retry: cannot}, map[string]v1alpha1.Artifact{"art": {KopiaSnapshot: "rendered"}}}
	}
}

// apply applies the steps, and returns whether something was observed that needs a decision in the same sync.
func (w *world) apply(o *observed, p plan, done *share) (again bool, _ error) {
	clear(o.polled)
	clear(o.prepared)
	names := &syncer{memory: &memory{}}
	names.nameEvents(p.Steps)
	for i, s := range p.Steps {
		switch s.(type) {
		case startPhase, cancelPhase, cleanUp:
			if w.acted++; w.most > 0 && w.acted > w.most {
				for _, left := range p.Steps[i:] {
					switch left.(type) {
					case startPhase, cancelPhase, cleanUp:
						key := phaseOfStep(left)
						done.pollAgain(key)
						o.round.Insert(pollPhase{key: key}.about(), pollPhase{key: key, stopping: true}.about())
					}
				}
				if o.leftUnknown = true; again {
					return true, nil
				}
				return false, errNotActed
			}
		}
		if w.dies > 0 {
			if w.dies--; w.dies == 0 {
				start, starts := s.(startPhase)
				switch {
				case w.hold && starts && w.traits(start.key).LeavesBehind:
					recorded := intentOf(o, start.key)
					w.held = append(w.held, func() { w.effect(start.key, recorded) })
				case w.late:
					_, _ = w.do(o, s)
				}
				return false, errKilled
			}
		}
		observed, err := w.do(o, s)
		if err != nil {
			return false, err
		}
		if part, ok := s.(roundPart); ok {
			o.round.Insert(part.about())
			done.finish(part.about())
		}
		again = again || observed
	}
	return again || p.Again, nil
}

func (w *world) do(o *observed, s controller.Step) (again bool, _ error) {
	switch s := s.(type) {
	case addFinalizer:
		return false, w.write(o, func(set *v1alpha1.ActionSet) { set.Finalizers = append(set.Finalizers, Finalizer) })
	case keepFinalizer:
		if w.set() == nil || w.set().ResourceVersion != o.set.ResourceVersion {
			return false, errConflict
		}
	case removeFinalizer:
		return false, w.write(o, func(set *v1alpha1.ActionSet) { set.Finalizers = nil })
	case writeStatus:
		w.writes++
		if s.status.Snapshot != nil {
			s.status.Snapshot = o.snapshotID
		}
		return false, w.write(o, func(set *v1alpha1.ActionSet) { set.Status = stored(w.t, &s.status) })
	case createSnapshot:
		if w.run != nil {
			return false, errConflict // there is one: that is the one
		}
		secret, err := newSnapshotSecret(o.set, s.snapshot)
		if err != nil {
			w.t.Fatal(err)
		}
		w.snapshots++
		secret.UID = types.UID(fmt.Sprint("secret ", w.snapshots))
		w.run, w.snapshotBy = secret, w.process
		o.snapshot, o.snapshotID = s.snapshot, snapshotIDOf(secret)
	case deleteSnapshot:
		w.run, o.snapshot = nil, nil
	case startPhase:
		o.polled[s.key] = w.start(s.key, intentOf(o, s.key))
		return o.polled[s.key].State != phase.Running, nil
	case cancelPhase:
		if c := w.calls[s.key]; c != nil && (s.ignoreFailure || !w.stubborn[s.key]) {
			c.state = phase.Stopped
			c.present = c.present && !w.traits(s.key).LeavesBehind
		}
	case cleanUp:
		if c := w.calls[s.key]; c != nil {
			if p := phaseIn(w.set().Status, s.key); p != nil && p.State == v1alpha1.StateRunning {
				w.fault("phase %s is cleaned up while it runs", s.key)
			}
			c.present = false
		}
	case recordEvent:
		if s.last && s.blueprint == "" {
			w.said, o.recordedEvent = s.name, s.name
		}
		if s.blueprint == "" {
			w.events = append(w.events, s.reason+": "+s.message)
		}
	}
	return false, nil
}

func (w *world) write(o *observed, change func(*v1alpha1.ActionSet)) error {
	if w.set() == nil || w.set().ResourceVersion != o.set.ResourceVersion {
		return errConflict
	}
	before := w.set()
	w.change(change)
	w.sees = len(w.history) - 1
	if w.set() != nil {
		o.set = w.set().DeepCopy()
		w.check(before.Status, w.set().Status)
	}
	return nil
}

// settle syncs until nothing happens any more. Phases that run and have no ending succeed meanwhile.
func (w *world) settle() {
	for range 60 {
		w.sees = len(w.history) - 1
		if w.atRest() {
			return
		}
		if err := w.sync(); err != nil && !errors.Is(err, errConflict) {
			w.restart(0)
		}
		w.now = w.now.Add(30 * time.Second)
		for _, key := range slices.Collect(maps.Keys(w.calls)) {
			if _, ok := w.ending[key]; !ok {
				w.ending[key] = succeeded(key)
			}
		}
	}
}

// atRest reports whether the run has ended, and nothing is left to do.
func (w *world) atRest() bool {
	o := w.look()
	if o == nil {
		for key, c := range w.calls {
			if c.present && w.traits(key).LeavesBehind {
				return false
			}
		}
		return true
	}
	return hasFinished(o.set.Status) && len(decide(*o).Steps) == 0
}

func succeeded(key phaseKey) phase.Observation {
	return phase.Observation{State: phase.Succeeded, Output: map[string]any{"of": key.String()}}
}

// checkEnd returns what is wrong when nothing changes any more.
func (w *world) checkEnd() []string {
	if collected := w.set() == nil && w.run != nil && (w.terminating || metav1.GetControllerOf(w.run) != nil); w.run != nil && !collected {
		w.fault("the snapshot is left")
	}
	for key, c := range w.calls {
		if c.present && w.traits(key).LeavesBehind {
			w.fault("phase %s has left something", key)
		}
	}
	if set := w.set(); set != nil {
		if !hasFinished(set.Status) || len(set.Finalizers) > 0 || len(runningPhases(set.Status)) > 0 {
			w.fault("it has not ended: %s, finalizers %v", describeStatus(set.Status), set.Finalizers)
		}
	}
	return w.faults
}
