// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials watches the Secrets and ConfigMaps that hooks name, each of them alone.
//
//	source := credentials.New(ctx, client)                            // one per process, until the context ends
//	hold := source.Hold(requeue, credentials.RefsOf(sync.Access())...) // while a hook needs them; the same may be held by many
//	hold.HasSynced()                                                  // each is read, known to be missing, or refused
//	source.Secret(namespace, name)                                    // as a hook.Source: from the watch, so that a rotation takes effect immediately
//	hold.Release()
//
// Each object has a watch with a field selector on its name, for which the right to list and watch that name is enough:
// an engine needs rights on nothing else in the namespace, and has nothing else of it in memory. Widening a watch to serve two
// names, as package objectcache does, would need rights on all.
//
// Nothing of the data is logged. An error is returned to the caller that asks for the data, and logged once, not at each try.
//
//	refs.go     which objects an access names
//	source.go   which holds there are, and what they get
//	watch.go    one watch, by client-go's Reflector
package credentials
