// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addresslimit limits what the clients of one address cost a server before it knows them: requests that fail, and connections.
package addresslimit
