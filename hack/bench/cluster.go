// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"millwright.dev/pkg/generated/clientset/versioned"
)

const (
	// startTimeout is above the limit of bin/cluster, which can report what it waited for.
	startTimeout = 4 * time.Minute
	// podsPerNode leaves room on a simulated node, which holds 1,100 Pods, for those that terminate.
	podsPerNode = 800
)

// cluster is the control plane of this run, with clients that have no limits.
type cluster struct {
	*process
	dir        string
	config     *rest.Config
	client     versioned.Interface
	kubeClient kubernetes.Interface
	dynamic    dynamic.Interface
}

// startCluster starts a control plane with room for that number of Pods, waits until it is ready, and installs the CRDs.
func (b *bench) startCluster(ctx context.Context, pods int) (err error) {
	c := &cluster{dir: filepath.Join(b.dir, "cluster")}
	nodes := max(2, (pods+podsPerNode-1)/podsPerNode) // each takes CPU
	c.process, err = b.startProcess("control plane", nil, binary("cluster"), "up", "--dir", c.dir, "--port", "0", "--simulated-nodes", strconv.Itoa(nodes))
	if err != nil {
		return err
	}
	b.cluster = c
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = poll(ctx, "the control plane to be ready", func() bool { _, err := os.Stat(filepath.Join(c.dir, "ready")); return err == nil })
	if err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return fmt.Errorf("connecting to the control plane: %w", err)
	}
	version, err := c.kubeClient.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	b.say("Kubernetes %s", version.GitVersion)
	return c.installCRDs(ctx, "manifests/00-crds", "hack/bench/parents.yaml")
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

func (c *cluster) connect() (err error) {
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig()); err != nil {
		return err
	}
	c.config.QPS = -1
	if c.client, err = versioned.NewForConfig(c.config); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return err
	}
	config := rest.CopyConfig(c.config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	c.kubeClient, err = kubernetes.NewForConfig(config)
	return err
}

func (c *cluster) installCRDs(ctx context.Context, paths ...string) error {
	var files []string
	for _, path := range paths {
		files = append(files, "-f", path)
	}
	if err := c.kubectl(ctx, append([]string{"apply", "--server-side"}, files...)...); err != nil {
		return err
	}
	for {
		err := c.kubectl(ctx, append([]string{"wait", "--for=condition=Established", "--timeout=1m"}, files...)...)
		// kubectl waits for a condition to become true, but not for an object to have conditions.
		if err == nil || !strings.Contains(err.Error(), "conditions accessor error") {
			return err
		}
	}
}

func (c *cluster) kubectl(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, binary("kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig(), "KUBECACHEDIR="+filepath.Join(c.dir, "kubectl-cache"))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}
