// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

import (
	"cmp"
	"crypto/sha1" // #nosec G505 -- the names are Metacontroller's; nothing depends on the strength of the hash
	"encoding/hex"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

const (
	maxName   = 253
	hashWidth = 2 * sha1.Size
)

// NameOf returns the name of the record of a revision: the type of the parent, and a hash of the parent's UID and the patch. It depends on nothing else, so
// that a record is created once.
func NameOf(parents schema.GroupResource, uid types.UID, patch map[string]any) (string, error) {
	text, err := encode(patch)
	if err != nil {
		return "", err
	}
	hash := sha1.New() // #nosec G401
	hash.Write([]byte(uid))
	hash.Write(text)
	prefix := parents.Resource + "." + cmp.Or(parents.Group, "core")
	prefix = prefix[:min(len(prefix), maxName-hashWidth-1)]
	return prefix + "-" + hex.EncodeToString(hash.Sum(nil)), nil
}

// ReadPatch returns the patch of a record, and whether the record is genuine: its name is the one of the patch. A patch that another client has changed,
// or whose record was made for another parent, would be rolled out to children otherwise.
func ReadPatch(record *v1alpha1.ControllerRevision, parents schema.GroupResource, uid types.UID) (patch map[string]any, genuine bool) {
	if utiljson.Unmarshal(record.ParentPatch.Raw, &patch) != nil || patch == nil {
		return nil, false
	}
	name, err := NameOf(parents, uid, patch)
	return patch, err == nil && name == record.Name
}

// Child is a child of a type that rolls, in the namespace of its parent.
type Child struct{ Group, Kind, Name string }

func (c Child) String() string { return c.Kind + " " + c.Name }

func (c Child) compare(other Child) int {
	return cmp.Or(cmp.Compare(c.Group, other.Group), cmp.Compare(c.Kind, other.Kind), cmp.Compare(c.Name, other.Name))
}

// ReadClaims returns the children that a record claims.
func ReadClaims(children []v1alpha1.ControllerRevisionChildren) (claims []Child) {
	for _, of := range children {
		for _, name := range of.Names {
			claims = append(claims, Child{of.APIGroup, of.Kind, name})
		}
	}
	return claims
}

// WriteClaims returns claims as they are recorded, sorted.
func WriteClaims(claims []Child) (children []v1alpha1.ControllerRevisionChildren) {
	sorted := slices.SortedFunc(slices.Values(claims), Child.compare)
	for i, c := range sorted {
		if i == 0 || c.Group != sorted[i-1].Group || c.Kind != sorted[i-1].Kind {
			children = append(children, v1alpha1.ControllerRevisionChildren{APIGroup: c.Group, Kind: c.Kind})
		}
		of := &children[len(children)-1]
		of.Names = append(of.Names, c.Name)
	}
	return children
}
