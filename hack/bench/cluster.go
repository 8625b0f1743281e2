// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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
	// startTimeout is above the limit that bin/cluster sets itself, since that can tell what it waited for.
	startTimeout = 4 * time.Minute
	// podsPerNode is what we plan with; a simulated node has room for 1,100. Pods that terminate take room too.
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

// startCluster starts a control plane with room for so many Pods, waits until it is ready, and installs our CRDs.
func startCluster(ctx context.Context, dir string, pods int) (c *cluster, err error) {
	c = &cluster{dir: filepath.Join(dir, "cluster")}
	nodes := max(2, (pods+podsPerNode-1)/podsPerNode)
	c.process, err = startProcess(dir, "control plane", nil, binary("cluster"), "up", "--dir", c.dir, "--port", "0", "--simulated-nodes", strconv.Itoa(nodes))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	isReady := func() bool { _, err := os.Stat(filepath.Join(c.dir, "ready")); return err == nil }
	if err := c.await(startCtx, "the control plane to be ready", isReady); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c, c.installCRDs(startCtx, "manifests/00-crds")
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

func (c *cluster) connect() (err error) {
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig()); err != nil {
		return fmt.Errorf("reading the kubeconfig of the control plane: %w", err)
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

// installCRDs of a file or folder.
func (c *cluster) installCRDs(ctx context.Context, crds string) error {
	if _, err := c.kubectl(ctx, "apply", "--server-side", "-f", crds); err != nil {
		return fmt.Errorf("installing the CRDs: %w", err)
	}
	for {
		_, err := c.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=1m", "-f", crds)
		// kubectl waits for a condition to come true, but not for an object to have conditions at all.
		if err == nil || !strings.Contains(err.Error(), "conditions accessor error") {
			return err
		}
	}
}

func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, binary("kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig(), "KUBECACHEDIR="+filepath.Join(c.dir, "kubectl-cache"))
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}
