// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exec runs commands in containers for phases.
//
// A command runs on streams of this process and cannot be found by another process. Its intent carries the identity of the process, so that another
// process reports the call as lost instead of running the command a second time.
//
//	commands.go   the commands that this process runs, by phase
//	command.go    one of them: its streams, and what it waits for
//	place.go      the limit of commands with large outputs
//	failures.go   how a command has failed in its containers
//	stream.go     an Executor on the API server: one command in one container
//	upgrade.go    the connection of a command, which is not read while the command waits for memory
//	query.go      keeps the command out of logged URLs
//	output.go     outputs and last lines of what a command prints
package exec
