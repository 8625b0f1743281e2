// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/kubeconfig"
)

// serviceAccountNamespace is the file with the namespace of the Pod.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace is the variable that the manifests set to the namespace of the Pod.
const podNamespace = "POD_NAMESPACE"

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
	// SecureMetrics sets whether and how metrics are served over HTTPS.
	SecureMetrics SecureMetrics
	// LeaderElection is nil if no other process can run.
	LeaderElection *LeaderElection
	// OperatorNamespace is the one that this process runs in; "" where it is not known.
	OperatorNamespace string
	// KeepManagedFields shows hooks the managedFields of objects.
	KeepManagedFields bool
	// ShutdownTimeout is how long controllers may take to stop.
	ShutdownTimeout time.Duration

	clients clientBuilder
	cluster *kubeconfig.Cluster
	exit    func(code int) // ends the process immediately
}

// leaseNamespace is where the Lease is, "" if there is none.
func (c *Config) leaseNamespace() string {
	if c.LeaderElection == nil {
		return ""
	}
	return c.LeaderElection.Namespace
}

// reviewClient asks the API server to authenticate and authorize the clients of /metrics. A standby does so too. Its requests are limited: for the API
// server's priority and fairness they are of the same user as those of the controllers.
func (c *Config) reviewClient() (kubernetes.Interface, error) {
	config := c.clients.restConfig("metrics", func() error { return nil })
	config.QPS, config.Burst, config.RateLimiter = reviewQPS, reviewBurst, nil
	_, client, err := build(config, "metrics")
	return client, err
}

// ownNamespace is the one that this process runs in: POD_NAMESPACE, which may be set outside of a cluster too, or else that of the Pod; "" where
// it is not known.
func ownNamespace(inPod bool) string {
	if namespace := os.Getenv(podNamespace); namespace != "" {
		return namespace
	}
	if !inPod {
		return "" // a Pod with a kubeconfig may work on another cluster than its own
	}
	namespace, err := os.ReadFile(serviceAccountNamespace)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(namespace))
}

// leaseNamespace is that of the Pod, and "default" outside of a cluster, whatever the kubeconfig's context has: all processes must
// use the same one, or two of them lead.
func leaseNamespace(inPod bool) (string, error) {
	if !inPod {
		return "default", nil
	}
	namespace, err := os.ReadFile(serviceAccountNamespace)
	if err != nil {
		return "", fmt.Errorf("reading the namespace of this Pod: %w; set --leader-elect-lease-namespace", err)
	}
	return strings.TrimSpace(string(namespace)), nil
}
