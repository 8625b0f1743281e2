// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordstore keeps the objects of an aggregated API in records: custom resources of another group, one per object, of the
// same namespace and name. To k8s.io/apiserver it is a storage.Interface like that over etcd.
//
// A record holds its object as JSON in spec.object, with all of the object's metadata (uid, generation, finalizers, owners, managed
// fields) but the resourceVersion, which is that of the record. The object's labels are those of the record too, so that the API
// server that has the records selects by them. Nothing else of an object shows in its record: whatever the control plane does by
// uids, owners or finalizers, it does to the object.
//
// The API server of the records is asked for everything: each call but GuaranteedUpdate and Delete is one request, a watch is one watch,
// and nothing is remembered but what JSON was decoded to. resourceVersions, continue tokens, bookmarks, initial events and the errors 410 and "too large
// resource version" are therefore as exact as there. A record that is deleted behind our back, as with its namespace, is an object
// that is deleted.
package recordstore
