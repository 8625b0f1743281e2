// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

// Package merge computes the next version of an object in the cluster of which a client, such as a hook, desires some fields and
// leaves the others to the API server and to other people. It is Metacontroller 4.17's "dynamic apply": a merge of three trees
// (what is observed, what was applied last, what is desired) that knows nothing of the kind of the object.
//
//	created, err := merge.WithLastApplied(desired)   // for an object that is not there yet
//	verdict, err := merge.Update(observed, desired)  // for one that is
//	if verdict.Differs { ... write verdict.Object, or re-create it unless verdict.RecordOnly ... }
//	sum, err := merge.Hash(desiredJSON)              // to remember: this desired and that resourceVersion made no difference
//
// # The rules
//
// What was applied last is read from an annotation of the observed object (lastapplied.go). Then, from the top (merge.go):
//
//   - An object loses the members that were applied last and are not desired any more, whichever client has changed them since; each desired
//     member is merged; the others stay.
//   - A list is a map if all elements of all three lists are objects that share one of containerPort, port, mountPath, name, uid,
//     ip, path, the first of these that they share (list.go). Then elements with the same value in it, as text, are merged like
//     members of an object; a value that is itself an object is compared whole. The observed order stays, new elements come
//     last. Any other list is replaced by the desired one.
//   - A scalar, and what is absent, is replaced by what is desired. A null replaces a scalar. Of an object or a list a null
//     takes only what was applied last; a list that is no map becomes null, unless it is empty.
//   - A value that is desired with another type than it has (an object as a string, a list as an object) replaces what is
//     observed, whatever of it was never ours: nothing of the one has a place in the other. A record of another type counts as
//     none.
//
// Never changed is what the desired object has no say in (putBack in update.go): status, what the API server keeps in the
// metadata, name, namespace, and owner references, which are set where an object is created or adopted.
//
// Two trees differ unless they are equal as an API server sees them: numbers by their value, so that 1.0 is 1, and a null member
// as one that is not there. An empty object or list is not the same as none: to a network policy these are worlds apart. Where
// an API server drops or rewrites more than that, the same verdict comes again after each write. Callers remember the
// [Hash] and the resourceVersion, and do not repeat a write that has changed nothing.
//
// # Equal keys
//
// Elements of one list may have equal keys: the ports 53/TCP and 53/UDP, two subjects of one name in two namespaces. Metacontroller
// takes the last for all of them. Here (duplicates.go) elements whose key comes twice in any of the three lists are distinguished by
// further fields, in this order: protocol (TCP if it is not set), containerPort, port, mountPath, name, uid, ip, path, kind,
// namespace, pathType, hostPort, hostIP. A field counts only if it is a scalar in all elements with that key, in all three lists,
// and only among those that the fields before it have left several of in one list. Elements that no field distinguishes (an
// environment variable that is set twice) are matched by their rank: the first with the first. Of these there are as many as
// desired, if any are.
//
// This changes nothing for an element whose key is its own in each list: it is matched by that key alone, so that it may change
// its protocol or its name and stay the same element. A manifest without equal keys gives the same object as ever, but for nulls
// where nothing is, and no child is written or re-created because the engine is another. (FuzzMergeIsThatOfMetacontroller holds
// this package to it.) Where keys are equal and all desired elements are in place, nothing is written either. Only a list that an
// earlier engine has collapsed is put right, once.
//
// # The annotation
//
// [LastAppliedAnnotation] holds the desired object without its owner references and without the annotation itself, as
// encoding/json writes it, byte for byte (encode.go). An annotation that has the same content in another form, or differs only in what is
// put back, stays as it is. One that is missing, empty or null means that nothing was applied. One that cannot be read means the
// same, is replaced, and [Verdict].Unreadable is the reason. A desired annotation that is not a string is an error: Metacontroller drops
// all annotations then, without a word.
//
// # Trees
//
// Trees are what JSON decodes to in apimachinery: nil, bool, int64, float64, string, []any, map[string]any. No input is ever
// changed. A result is a new tree only along the paths that differ and shares the rest with the inputs; without a difference it is
// the observed tree itself. So results are for reading and for encoding. Recursion is bounded by the depth of the desired object,
// and that by 10,000.
//
// Everything here is a function of its arguments, may be called from many goroutines, and never panics, whatever the JSON.
package merge
