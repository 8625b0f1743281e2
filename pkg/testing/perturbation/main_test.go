// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/testcluster"
)

func TestMain(m *testing.M) {
	testcluster.Main(m, testcluster.WithCRDs("manifests/00-crds"), testcluster.WithCRDs("pkg/testing/perturbation/testdata/crds"),
		testcluster.WithManifests("pkg/testing/perturbation/testdata/restricted.yaml"),
		testcluster.WithKeptNamespaces())
}

// clients returns the clients of one instance of a controller.
func clients(config *rest.Config) (versioned.Interface, kubernetes.Interface, error) {
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	kubeClient, err := kubernetes.NewForConfig(config)
	return client, kubeClient, err
}
