// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides rolling updates of the children of a parent: which revision each child has, and which child is moved to the latest
// revision next. It is pure: it reads and writes nothing.
//
// A revision is a state of the parent's fields that revisionHistory selects. Its record, a ControllerRevision, has those fields as a patch, and names
// the children that have the revision: it claims them. The formats are those of Metacontroller 4.17 (pkg/controller/composite/controller_revision.go
// there), so that a rolling update that was begun by one engine is finished by the other.
//
//	patch.go      the fields of a parent that make a revision
//	record.go     names of ControllerRevisions
//	order.go      the children in the order in which they are moved
//	claims.go     which revision each desired child has, and how that is recorded
//	plan.go       which children are moved to the latest revision
//	condition.go  what the condition Updated reports of that
//
// At most one child is moved in a sync, and only when every child of the latest revision is as that desires it and ready. Children that cannot differ, or
// that need no change, are moved immediately. A record is written before the children that it claims: whatever is left undone by a process that ends in the
// middle, the next one finds in records and children.
package rollout
