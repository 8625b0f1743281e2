// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/testing/patience"
)

// requestTimeout is the limit of each function of this package that sends requests to the API server. kubectl, which has patience.Timeout, gives up
// before it: its message is the better one.
var requestTimeout = patience.Limit + 10*time.Second

// notInNames matches characters that a test's name may have and a namespace's name may not.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace creates a namespace for this test and returns its name, which begins with the name of the test. Pods can be created in it
// immediately: its default ServiceAccount exists. The end of the test deletes the namespace, without waiting until it is gone; see
// WithKeptNamespaces.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	namespace, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name[:min(len(name), 50)] + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace for the test: %v", err)
	}
	t.Cleanup(func() {
		if c.keepsNamespaces {
			return
		}
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		err := client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting the test's namespace: %v", err)
		}
	})
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("waiting for the default ServiceAccount of namespace %s: %v", namespace.Name, err)
	}
	return namespace.Name
}

// InstallCRDs runs kubectl apply --server-side with every file of a folder, as a user does, and returns when the API server serves the
// CRDs. A second call updates them. The folder is absolute or relative to the root of the repository.
func (c *Cluster) InstallCRDs(t testing.TB, folder string) {
	t.Helper()
	if err := c.installCRDs(folder); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) installCRDs(folder string) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(root, folder)
	}
	if _, err := c.kubectl("apply", "--server-side", "-f", folder); err != nil {
		return fmt.Errorf("installing the CRDs in %s: %w", folder, err)
	}
	err = wait.PollUntilContextTimeout(context.Background(), pollInterval, requestTimeout, true, func(context.Context) (bool, error) {
		_, err := c.kubectl("wait", "--for=condition=Established", patience.Timeout, "-f", folder)
		// kubectl waits for a condition to come true, but not for an object to have conditions at all.
		if err != nil && strings.Contains(err.Error(), "conditions accessor error") {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the CRDs in %s: %w", folder, err)
	}
	return nil
}

// installManifests runs kubectl apply --server-side with files relative to the root of the repository.
func (c *Cluster) installManifests(files []string) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := c.kubectl("apply", "--server-side", "-f", filepath.Join(root, file)); err != nil {
			return fmt.Errorf("installing %s: %w", file, err)
		}
	}
	return nil
}

// Kubectl runs the kubectl of the cluster in the test's folder and returns what it printed. The test fails if kubectl fails; see
// [Cluster.KubectlFails].
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	output, err := c.kubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// KubectlFails runs a kubectl command that must fail, and returns its error messages.
func (c *Cluster) KubectlFails(t testing.TB, args ...string) string {
	t.Helper()
	output, err := c.kubectl(args...)
	if err == nil {
		t.Fatalf("kubectl %s did not fail; it printed:\n%s", strings.Join(args, " "), output)
	}
	return err.Error()
}

// kubectl returns the standard output; the error has what kubectl wrote to standard error.
func (c *Cluster) kubectl(args ...string) (string, error) {
	command := c.kubectlCommand(context.Background(), args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// StartKubectl starts a kubectl command that runs until the test ends, for example with --watch. The returned function returns what the
// command has printed so far.
func (c *Cluster) StartKubectl(t testing.TB, args ...string) (output func() string) {
	t.Helper()
	printed, err := os.CreateTemp(t.TempDir(), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	command := c.kubectlCommand(t.Context(), args...) // the context ends before the functions of Cleanup run
	command.Stdout, command.Stderr = printed, printed
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() })
	return func() string {
		content, err := os.ReadFile(printed.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
}

func (c *Cluster) kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, c.process.binary("kubectl"), args...)
	// A cache per cluster: kubectl's discovery cache is named by host and port, and ports are used again.
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "KUBECACHEDIR="+filepath.Join(c.process.dir, "cache"))
	return command
}
