// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

// Package merge computes the next version of an object in the cluster for a client, such as a hook, that desires some fields and leaves the
// others to the API server and to other clients. It is Metacontroller 4.17's "dynamic apply": a merge of three trees (what is observed,
// what was applied last, what is desired) that does not depend on the kind of the object.
//
//	created, err := merge.WithLastApplied(desired)   // for an object that is not there yet
//	verdict, err := merge.Update(observed, desired)  // for one that is
//	if verdict.Differs { ... write verdict.Object, or re-create it unless verdict.RecordOnly ... }
//	sum, err := merge.Hash(desiredJSON)              // to remember: this desired and that resourceVersion made no difference
//
// For a client that writes by server-side apply, Apply and WithAppliedHash take the place of Update and WithLastApplied.
//
// # The rules
//
// What was applied last is read from an annotation of the observed object (lastapplied.go). Then, from the top (merge.go):
//
//   - Members of an object that were applied last and are not desired any more are removed, also if another client has changed them since;
//     each desired member is merged; the others are kept.
//   - A list is a map if all elements of all three lists are objects that have one of containerPort, port, mountPath, name, uid, ip, path:
//     the first of these that all have is the key (list.go). Then elements with the same value of the key, as text, are merged like
//     members of an object; a value that is itself an object is compared as a whole. The observed order is kept, new elements come
//     last. Any other list is replaced by the desired one.
//   - A scalar, and a missing value, is replaced by the desired one. A null replaces a scalar. A desired null removes from an object or a
//     list only what was applied last; a list that is no map becomes null, unless it is empty.
//   - A desired value with another type than the observed one (an object as a string, a list as an object) replaces it, also the parts
//     that were never ours. A record of another type counts as none.
//
// Some fields are never changed by the desired object (putBack in update.go): status, the metadata that the API server sets, name,
// namespace, and owner references, which are set when an object is created or adopted.
//
// Two trees are equal if they are equal for an API server: numbers by their value, so 1.0 equals 1, and a null member equals a missing one.
// An empty object or list does not equal a missing one: a network policy, for instance, treats them differently. If an API server drops or
// rewrites more than that, the same verdict comes again after each write. Callers remember the [Hash] and the resourceVersion, and do not
// repeat a write that has changed nothing.
//
// # Equal keys
//
// Elements of one list may have equal keys: the ports 53/TCP and 53/UDP, two subjects of one name in two namespaces. Metacontroller
// takes the last for all of them. Here (duplicates.go) elements whose key comes twice in any of the three lists are distinguished by
// further fields, in this order: protocol (TCP if it is not set), containerPort, port, mountPath, name, uid, ip, path, kind,
// namespace, pathType, hostPort, hostIP. A field counts only if it is a scalar in all elements with that key, in all three lists, and
// only among elements that the fields before it do not distinguish within one list. Elements that no field distinguishes (an
// environment variable that is set twice) are matched by their position: the first with the first. The result has as many of them as
// are desired, if any are.
//
// An element whose key is unique in each list is not affected: it is matched only by its key, so that its protocol or its name may change.
// A manifest without equal keys gives the same object as in Metacontroller, except for nulls where there is no value, so no child is written
// or re-created after a change of the engine (FuzzMergeIsThatOfMetacontroller checks this). If keys are equal and all desired elements
// exist, nothing is written either. Only a list that an earlier engine has collapsed is repaired, once.
//
// # The annotation
//
// [LastAppliedAnnotation] holds the desired object without its owner references and without the annotation itself, as
// encoding/json writes it, byte for byte (encode.go). An annotation that has the same content in another form, or differs only in what is
// put back, is kept. If it is missing, empty or null, nothing was applied. If it cannot be read, it counts as missing and is replaced, and
// [Verdict].Unreadable is the reason. A desired annotation that is not a string is an error: Metacontroller silently drops all annotations
// in this case.
//
// # Server-side apply
//
// The API server merges, so [Apply] only decides whether there is something to apply (apply.go): if another object is desired than the hash in the annotation
// [AppliedHashAnnotation] is of, or if a desired field has another value. The hash is of the object as encode.go writes it, so that another process decides
// the same.
// What was applied and is desired no more is known to the managedFields alone. Caches do not hold them: they are read where the answer matters
// (managedfields.go), which is for a recreation, and after a change of the strategy. An object shows by its annotations which strategy has written it last.
//
// # Trees
//
// Trees are what JSON decodes to in apimachinery: nil, bool, int64, float64, string, []any, map[string]any. No input is ever
// changed. A result is a new tree only along the paths that differ and shares the rest with the inputs; without a difference it is
// the observed tree itself. So results are for reading and for encoding. Recursion is bounded by the depth of the desired object,
// and that by 10,000.
//
// All functions are pure, may be called concurrently, and never panic, whatever the JSON is.
package merge
