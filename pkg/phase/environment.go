// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Environment has the clients and settings of functions.
type Environment struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// RESTConfig is for the streams of commands.
	RESTConfig *rest.Config
	// ServiceAccount of Pods for which none is named; "" for the default of the API server.
	ServiceAccount string
	// Reach limits where phases work.
	Reach Reach
	// Wake is called when the state of a phase has changed, so that it should be polled. It may be called concurrently, and returns
	// immediately.
	Wake func(ID)
}
