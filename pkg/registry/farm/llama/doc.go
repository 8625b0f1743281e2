// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package llama serves Llamas: what may stand in one, how it is shown, and the generic registry's Store over any storage.Interface.
// Where Llamas are kept is no concern of it: pkg/storage/recordstore and pkg/storage/memorystore know that.
package llama
