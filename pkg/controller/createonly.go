// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

// EmptyStoreVersion is a resourceVersion that no object has: it is that of the empty store. A server-side apply with it can create an object, and is refused
// as a conflict if the object exists. Without it, a foreign object that happens to have all fields that are applied would silently become ours.
const EmptyStoreVersion = "1"
