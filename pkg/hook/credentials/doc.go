// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials watches the Secrets and ConfigMaps that hooks name, each of them alone.
//
//	source := credentials.New(ctx, client)                            // one per process, until the context ends
//	hold := source.Hold(requeue, credentials.RefsOf(sync.Access())...) // while a hook needs them; the same may be held by many
//	hold.HasSynced()                                                  // each is read, known to be missing, or refused
//	source.Secret(namespace, name)                                    // as a hook.Source: from the watch, so that a rotation is seen at once
//	hold.Release()
//
// Each object has a watch with a field selector on its name, which an API server allows to whoever may list and watch that name:
// an engine needs rights on nothing else in the namespace, and has nothing else of it in memory. Widening a watch to serve two
// names, as package objectcache does, would need rights on all.
//
// Nothing of the data is logged. What goes wrong is told to who asks for the data, and logged once, not at each try.
//
//	refs.go     which objects an access names
//	source.go   who holds what, and what he is told
//	watch.go    one watch, by client-go's Reflector
package credentials
