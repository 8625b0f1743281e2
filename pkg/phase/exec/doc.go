// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exec runs commands in containers for phases.
//
// A command runs on streams of this process and cannot be found by another process. Its intent carries the identity of the process, so that another
// process reports the call as lost instead of running the command a second time.
//
//	commands.go   the commands that this process runs, by phase
//	stream.go     an Executor on the API server: one command in one container
//	query.go      keeps the command out of logged URLs
//	output.go     outputs and last lines of what a command prints
package exec
