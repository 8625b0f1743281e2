// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig loads the client configuration that the flag --kubeconfig names.
package kubeconfig

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Load returns the client configuration of the kubeconfig file, or that of the Pod if path is empty. It ignores the variable KUBECONFIG.
// Errors name --kubeconfig and what to do.
func Load(path string) (*rest.Config, error) {
	if path != "" {
		return fromFile(path)
	}
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		hint := ""
		if stray := os.Getenv("KUBECONFIG"); stray != "" {
			hint = fmt.Sprintf(" (KUBECONFIG=%s is set, and is not used unless you pass --kubeconfig=\"$KUBECONFIG\")", stray)
		}
		return nil, fmt.Errorf("no cluster to work on: this is not a Pod, so name a kubeconfig file by --kubeconfig%s", hint)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ServiceAccount of this Pod: %w; mount its token, or name a kubeconfig file by --kubeconfig", err)
	}
	return config, nil
}

func fromFile(path string) (*rest.Config, error) {
	file, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}).Load()
	if err != nil {
		return nil, fmt.Errorf("reading the file that --kubeconfig names: %w", err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("--kubeconfig: %s names no cluster: set its current-context (kubectl config use-context ... --kubeconfig=%s)", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %s: %w", path, err)
	}
	return config, nil
}
