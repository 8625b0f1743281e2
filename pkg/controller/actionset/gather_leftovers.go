// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"fmt"

	"millwright.dev/pkg/phase"
)

// gatherLeftovers finds the phases that have ended and have left something, as far as there is time, and each phase once in a round. While the run goes on
// the API server is asked once about a phase; at its end it is asked again, because a late request of an earlier process may have made something. After the
// clean-up only caches are read, and nothing if a part of it was given up. What is not known holds up the end of the clean-up, not the run.
func (s *syncer) gatherLeftovers(ctx context.Context) {
	m, running := &s.memory.cleanUp, s.goesOn()
	if m.gaveUp && s.memory.cleanedUp {
		return
	}
	found := map[phaseKey]bool{}
	for _, id := range s.functions.Found(s.key.Namespace, s.key.Name) {
		if key := (phaseKey{id.Action, id.Phase}); id.UID == s.o.set.UID && !m.waits(key, running) {
			found[key] = true
		}
	}
	s.o.leftUnknown = s.o.leftUnknown || running && m.unclean()
	for _, key := range s.endedPhases() {
		looked := roundKey{key, roundLeft}
		leaver, ok := s.functionOf(key).(phase.Leaver)
		if !ok || found[key] || m.waits(key, running) {
			continue
		}
		if of := m.phases[key]; of.clean && (running || of.atEnd) {
			s.o.leftUnknown = s.o.leftUnknown || running // since it was looked at
			continue
		}
		if s.o.round.Has(looked) {
			continue
		}
		if !s.share.mayLook() {
			s.o.leftUnknown, s.o.looksLeft = true, true
			break
		}
		call, err := s.callOf(key)
		if err == nil {
			found[key], err = leaver.Left(ctx, call)
		}
		if err != nil {
			err = fmt.Errorf("looking for what phase %s has left: %w", key, err)
		}
		if !found[key] {
			_ = s.cleanedUp(ctx, looked, err) // it has recorded a failure
		}
	}
	for key, left := range found {
		if left {
			s.o.leftovers = append(s.o.leftovers, key)
		}
	}
}

// endedPhases returns the ended phases of a run that may have left something; none after the clean-up of the run. Without a snapshot, all phases
// have ended.
func (s *syncer) endedPhases() (keys []phaseKey) {
	if s.memory.cleanedUp {
		return nil
	}
	for i := range s.o.set.Status.Actions {
		for p := phase.Deferred; p < len(s.o.set.Status.Actions[i].Phases); p++ {
			key := phaseKey{i, p}
			of := phaseIn(s.o.set.Status, key)
			ended := s.o.snapshot == nil || of.CompletionTime != nil && s.o.snapshot.traits(key).LeavesBehind
			if ended && of.Intent != nil {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
