// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memorystore stores the objects of an aggregated API in the memory of the process. It is a storage.Interface that behaves like
// one over etcd: old resourceVersions can be read for a while, and there are bookmarks, initial events and the error 410.
//
// It has two users, and stays for them with its 700 lines: the flag --llama-storage=memory of "millwright apiserver", which is part of
// our interface (a farm for trying things out, without LlamaRecords and the rights on them), and the unit tests of package apiserver, which
// would need an API server without it.
//
// The objects are lost when the process ends. Replicas share nothing: a client sees other objects whenever another replica answers. Run
// one replica only.
//
// resourceVersions begin at the microsecond of the start and increase by one with each write. As long as there are less than a million
// writes in a second and the clock is not set back, those of the next process are higher: a client that continues a watch from before gets
// 410, and lists again.
package memorystore
