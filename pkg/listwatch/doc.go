// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listwatch lists and watches the objects of one of our own kinds for an informer, and leaves out those that cannot be decoded. With the
// clients of client-go one such object fails the whole list: the informer gets no object, and the controller does nothing for anybody.
//
// Our CRDs admit no object that a client cannot decode, with one exception: a client follows JSON to a depth of 10,000, and an object with that depth is
// deeper in a list. Objects are also stored that another CRD of the kind has admitted: that of an earlier release, or Kanister's, which admits any.
//
// An object that is left out is one that does not exist for the informer. When it becomes such an object, the informer gets it as deleted, as it was.
//
// A value whose decoding takes minutes, such as a Quantity of 1e-999999999 that an earlier release has admitted, is decoded.
package listwatch
