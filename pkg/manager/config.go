// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// serviceAccountNamespace is where a Pod finds the name of its own namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Config is what Run needs, complete and valid. Options.Config makes one.
type Config struct {
	// Version of the program, for logs, metrics and User-Agents.
	Version string
	// Controllers to run.
	Controllers []Descriptor
	// Workers of each controller.
	Workers int
	// Namespace to work in; "" for all.
	Namespace string
	// ServingAddress of health, and of metrics where SecureMetrics serves none; "" to serve nothing.
	ServingAddress string
	// SecureMetrics says how metrics are served over HTTPS, if so.
	SecureMetrics SecureMetrics
	// LeaderElection is nil where no other process can be at work.
	LeaderElection *LeaderElection
	// Hooks are for the controllers that call some.
	Hooks HookOptions
	// Phases are for the controllers that run some.
	Phases PhaseOptions
	// KeepManagedFields shows hooks the managedFields of objects.
	KeepManagedFields bool
	// ShutdownTimeout is how long controllers may take to stop.
	ShutdownTimeout time.Duration

	clients   clientBuilder
	apiServer string         // for the log
	exit      func(code int) // ends the process at once
}

// reviewClient asks the API server about those who ask us. A process that stands by does so too.
func (c *Config) reviewClient() (kubernetes.Interface, error) {
	_, client, err := c.clients.clients("metrics", func() error { return nil })
	return client, err
}

// clientConfig says how to reach the API server: as the kubeconfig says, or as a Pod does. Nothing else decides, least of
// all a KUBECONFIG that happens to be set.
func clientConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return kubeconfigClient(kubeconfig)
	}
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		hint := ""
		if stray := os.Getenv("KUBECONFIG"); stray != "" {
			hint = fmt.Sprintf(" (KUBECONFIG=%s is set, and is not used unless you say --kubeconfig=\"$KUBECONFIG\")", stray)
		}
		return nil, fmt.Errorf("no cluster to work on: this is not a Pod, so name a kubeconfig file by --kubeconfig%s", hint)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ServiceAccount of this Pod: %w; mount its token, or name a kubeconfig file by --kubeconfig", err)
	}
	return config, nil
}

func kubeconfigClient(path string) (*rest.Config, error) {
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

// leaseNamespace is the one of the Pod, and "default" outside of a cluster, whatever the kubeconfig's context says: all
// processes must agree on it, or two of them lead.
func leaseNamespace(kubeconfig string) (string, error) {
	if kubeconfig != "" {
		return "default", nil
	}
	namespace, err := os.ReadFile(serviceAccountNamespace)
	if err != nil {
		return "", fmt.Errorf("reading the namespace of this Pod: %w; set --leader-elect-lease-namespace", err)
	}
	return strings.TrimSpace(string(namespace)), nil
}
