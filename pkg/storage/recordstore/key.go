// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/storage"
)

// location is where an object is, or where objects are: everywhere, in a namespace, or under one name.
type location struct {
	key             string // as it was given, for errors
	namespace, name string
}

// object is where the object of that key is.
func (r *resource) object(key string) (location, error) {
	at, err := r.locate(key)
	if err == nil && at.name == "" {
		err = fmt.Errorf("invalid key %q: it has to be %s/NAMESPACE/NAME", key, r.prefix)
	}
	return at, err
}

// several is where the objects are that a list or a watch of that key is about.
func (r *resource) several(key string, recursive bool) (location, error) {
	if !recursive {
		return r.object(key)
	}
	at, err := r.locate(key)
	if err == nil && at.name != "" {
		err = fmt.Errorf("invalid key %q: what is below an object cannot be listed", key)
	}
	return at, err
}

func (r *resource) locate(key string) (location, error) {
	at := location{key: key}
	if _, err := storage.PrepareKey(r.prefix, key, false); err != nil {
		return at, err
	}
	path, inside := strings.CutPrefix(strings.TrimSuffix(key, "/")+"/", r.prefix+"/")
	if !inside || strings.Contains(path, "//") {
		return at, fmt.Errorf("invalid key %q: it has to begin with %s, and have no empty part", key, r.prefix)
	}
	path = strings.TrimSuffix(path, "/")
	at.namespace, at.name, _ = strings.Cut(path, "/")
	if strings.Contains(at.name, "/") {
		return at, fmt.Errorf("invalid key %q: it has more parts than %s/NAMESPACE/NAME", key, r.prefix)
	}
	return at, nil
}
