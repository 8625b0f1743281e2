// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package importer tests that the generated clients can be used from another module: the program in pkg/README.md is compiled in a module of its
// own, and runs on a real control plane.
package importer
