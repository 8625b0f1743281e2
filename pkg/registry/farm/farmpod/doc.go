// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package farmpod serves FarmPods: Pods as the farm sees them, live and read-only.
//
// Nothing is kept here. Each get, list and watch is the same request for Pods with the same options, made to the API server in
// the name of this server, and what comes back is converted (convert.go). So the resourceVersion, what it is compared with,
// pages, bookmarks, WatchList and 410 Expired are those of the Pods, and all replicas return the same.
//
// Users who may read FarmPods see what they show of Pods, whether or not they may read Pods; REST can check that too.
package farmpod
