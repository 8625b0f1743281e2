// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller is what every controller of Millwright shares: the contract that the manager runs, the loop around
// a rate-limited work queue, the wiring from informers to keys, the guard against a cache that lags behind our own
// writes, conditions, events, and the metrics of all of these.
//
// A controller is a folder below this one. It owns a Loop, tells it what to watch, and gives it one function:
//
//	syncHandler(ctx, key) (requeueAfter, error)
//
// which gathers what is observed, plans (pure), and applies the plan. Read immortalcontainer for an example.
package controller
