// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Environment is what functions work with.
type Environment struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Mapper knows what the API server serves.
	Mapper meta.ResettableRESTMapper
	// RESTConfig is what the streams of commands are opened with.
	RESTConfig *rest.Config
	// ServiceAccount of Pods for which none is named; "" is what the API server gives them.
	ServiceAccount string
	// OperatorNamespace is the one that this process runs in, where phases do nothing; "" where it is not known.
	OperatorNamespace OperatorNamespace
	// Wake is called when something of a phase has changed, and it is worthwhile to poll it. It may be called concurrently, and returns
	// immediately.
	Wake func(ID)
}
