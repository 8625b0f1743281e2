// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"encoding/json"
	"maps"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/merge"
)

// Children are written by one of two strategies. Dynamic apply merges here, and writes the result if it has read the newest version. Server-side apply sends
// what the hook desires, and the API server merges. A child shows which one has written it last, by its record (package merge).

// merger returns how a child is compared with what is desired of it.
func (spec *Spec) merger() merger {
	if spec.serverSide {
		return merge.Apply
	}
	return merge.Update
}

// comparesWritten reports whether a child is compared with what is desired when it was written: what differs then would differ after each write. An apply is
// only repeated if something else differs: the API server merges lists in ways of their own, and it would change nothing.
func (spec *Spec) comparesWritten(in *childType) bool { return spec.serverSide || in.rollsInPlace() }

// configuration returns the object of a step as server-side apply sends it: with preconditions by which it only creates, or only updates the version that was
// observed. So a delayed apply does not roll back a later one.
func (s childStep) configuration() map[string]any {
	object := maps.Clone(s.object)
	metadata := maps.Clone(object["metadata"].(map[string]any))
	if s.verb == verbCreate {
		metadata["resourceVersion"] = controller.EmptyStoreVersion
	} else {
		metadata["uid"], metadata["resourceVersion"] = string(s.uid), s.resourceVersion
	}
	object["metadata"] = metadata
	return object
}

// removes reports whether an update becomes a recreation: of the child as it is, with its managedFields, it removes a field.
func (s childStep) removes(managed map[string]any, manager string) bool {
	return s.orRecreate && merge.RemovesOwned(managed, s.desired, manager)
}

// takeOverPatch returns the JSON merge patch that makes a manager the owner of what dynamic apply has written to a child.
func takeOverPatch(managed map[string]any, step childStep, manager string) ([]byte, error) {
	metadata, err := merge.TakeOver(managed, manager)
	if err != nil {
		return nil, err
	}
	metadata["uid"], metadata["resourceVersion"] = string(step.uid), step.resourceVersion
	return json.Marshal(map[string]any{"metadata": metadata})
}

// updateOwned returns a child as dynamic apply writes it after server-side apply by a manager.
func updateOwned(managed, desired map[string]any, manager string) (map[string]any, error) {
	updated, err := merge.UpdateOwned(managed, desired, manager)
	if err != nil {
		return nil, err
	}
	return updated, checkAnnotations(updated)
}
