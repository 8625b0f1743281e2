// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig finds the cluster that a process works on, and loads the client configuration for it: from the file that --kubeconfig
// names, from the ServiceAccount of the Pod, or from the files that kubectl reads.
package kubeconfig

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
)

// Cluster is what a process works on.
type Cluster struct {
	// Config of its clients.
	Config *rest.Config
	// Context is the current context of the kubeconfig; "" for the cluster of the Pod.
	Context string

	kubeconfig clientcmdapi.Config
}

// InPod reports whether it is the cluster of the Pod, by the ServiceAccount of the Pod.
func (c *Cluster) InPod() bool { return c.Context == "" }

// Log logs which context of which file is used, so that a wrong one is noticed. In a Pod there is no choice, and it logs nothing.
func (c *Cluster) Log(logger klog.Logger) {
	if !c.InPod() {
		logger.Info("Using the current context of the kubeconfig", "context", c.Context, "server", c.Config.Host,
			"kubeconfig", c.kubeconfig.Contexts[c.Context].LocationOfOrigin)
	}
}

// WriteFile writes a kubeconfig that has this context alone. Certificates and keys in files stay there.
func (c *Cluster) WriteFile(path string) error {
	config := c.kubeconfig.DeepCopy()
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return fmt.Errorf("reducing the kubeconfig to the context %s: %w", c.Context, err)
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// Load returns the cluster that the kubeconfig file at path names. If path is empty, it is the cluster of the Pod, and outside of a Pod the
// one of the current context in the files that kubectl reads: those of the variable KUBECONFIG, or ~/.kube/config. Errors name what was
// read, and what to do.
func Load(path string) (*Cluster, error) {
	if path != "" {
		return fromFile(path)
	}
	config, noAccount := rest.InClusterConfig()
	if noAccount == nil {
		return &Cluster{Config: config}, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.WarnIfAllMissing = false // it is an error here
	cluster, err := load(rules)
	switch {
	case err == nil:
		return cluster, nil
	case !clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("reading %s: %w; name another kubeconfig file by --kubeconfig", source(rules), err)
	case !errors.Is(noAccount, rest.ErrNotInCluster):
		return nil, fmt.Errorf("reading the ServiceAccount of this Pod: %w; mount its token, or name a kubeconfig file by --kubeconfig", noAccount)
	}
	return nil, fmt.Errorf("no cluster to work on: this is not a Pod, and %s, or name a kubeconfig file by --kubeconfig", why(rules))
}

func fromFile(path string) (*Cluster, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("reading the file that --kubeconfig names: %w", err)
	}
	cluster, err := load(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path})
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("--kubeconfig: %s names no cluster: set its current-context (kubectl config use-context ... --kubeconfig=%s)", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %s: %w", path, err)
	}
	return cluster, nil
}

func load(rules *clientcmd.ClientConfigLoadingRules) (*Cluster, error) {
	file, err := rules.Load()
	if err != nil {
		return nil, err
	}
	if _, found := file.Contexts[file.CurrentContext]; !found && file.CurrentContext != "" {
		return nil, fmt.Errorf("context was not found for specified context: %s", file.CurrentContext) // as kubectl reports it
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	return &Cluster{Config: config, Context: file.CurrentContext, kubeconfig: *file}, nil
}

// source names the files, as a user has named them.
func source(rules *clientcmd.ClientConfigLoadingRules) string {
	if variable := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); variable != "" {
		return clientcmd.RecommendedConfigPathEnvVar + "=" + variable
	}
	return strings.Join(rules.Precedence, ", ")
}

// why returns why the files name no cluster, in the words of kubectl, and what to do about it.
func why(rules *clientcmd.ClientConfigLoadingRules) string {
	var missing []string
	for _, file := range rules.Precedence {
		_, err := os.Stat(file)
		if err == nil {
			return "current-context is not set in " + source(rules) + ": choose a context (kubectl config use-context NAME)"
		}
		missing = append(missing, err.Error())
	}
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return clientcmd.RecommendedConfigPathEnvVar + " names no file that exists: " + strings.Join(missing, ", ") +
			": correct " + clientcmd.RecommendedConfigPathEnvVar + ", unset it to use ~/.kube/config"
	}
	return strings.Join(missing, ", ") + ": set " + clientcmd.RecommendedConfigPathEnvVar
}
