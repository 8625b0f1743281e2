// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	goruntime "runtime"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/deadline"
	"millwright.dev/pkg/kubeconfig"
)

// clientConfig returns the client configuration for kube-apiserver.
func clientConfig(path, version string) (*rest.Config, error) {
	config, err := kubeconfig.Load(path)
	if err != nil {
		return nil, err
	}
	config.UserAgent = fmt.Sprintf("millwright/%s (%s/%s) apiserver", version, goruntime.GOOS, goruntime.GOARCH)
	// Each request of ours is one of a client, which kube-apiserver has let pass already.
	config.QPS = -1
	// Between two servers of one cluster the time to compress is worth more than the bytes.
	config.DisableCompression = true
	deadline.Wrap(config, deadline.Default)
	return config, nil
}

// clients of kube-apiserver. They share its connections.
type clients struct {
	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

func newClients(config *rest.Config) (*clients, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the clients of kube-apiserver: %w", err)
	}
	builtIn := rest.CopyConfig(config)
	builtIn.ContentType = runtime.ContentTypeProtobuf
	builtIn.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfigAndClient(builtIn, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making the client for built-in kinds: %w", err)
	}
	generic, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making the client for parameters of admission policies: %w", err)
	}
	return &clients{config: config, kube: kube, dynamic: generic}, nil
}
