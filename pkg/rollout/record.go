// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

import (
	"cmp"
	"crypto/sha1" // #nosec G505 -- the names are Metacontroller's; nothing depends on the strength of the hash
	"encoding/hex"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
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
func ReadPatch(record string, text []byte, parents schema.GroupResource, uid types.UID) (patch map[string]any, genuine bool) {
	if utiljson.Unmarshal(text, &patch) != nil || patch == nil {
		return nil, false
	}
	name, err := NameOf(parents, uid, patch)
	return patch, err == nil && name == record
}
