// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/deadline"
)

// clientConfig completes the client configuration for kube-apiserver.
func clientConfig(config *rest.Config, version string) *rest.Config {
	config.UserAgent = fmt.Sprintf("millwright/%s (%s/%s) apiserver", version, goruntime.GOOS, goruntime.GOARCH)
	// Each request of ours is one of a client, which kube-apiserver has let pass already.
	config.QPS = -1
	// Between two servers of one cluster the time to compress is worth more than the bytes.
	config.DisableCompression = true
	deadline.Wrap(config, deadline.Default)
	return config
}

// shareCluster writes a file for the clients of k8s.io/apiserver, which take a kubeconfig only from one file, where the cluster was found in
// the files that kubectl reads. They read it while the server is set up; remove removes it after that.
func (c *Config) shareCluster() (remove func(), err error) {
	if c.Kubeconfig != "" || c.cluster.InPod() {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "millwright-apiserver-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for a kubeconfig: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path := filepath.Join(dir, "kubeconfig")
	if err := c.cluster.WriteFile(path); err != nil {
		remove()
		return nil, err
	}
	for _, file := range []*string{&c.Authentication.RemoteKubeConfigFile, &c.Authorization.RemoteKubeConfigFile} {
		*file = cmp.Or(*file, path)
	}
	return remove, nil
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
