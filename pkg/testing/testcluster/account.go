// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// tokenLifetime is longer than any test run.
const tokenLifetime = 24 * time.Hour

// Account is a ServiceAccount as a Pod uses it: a token, and the rights that are bound to the account.
type Account struct {
	// User is the user name of the account for the authorizer and in the audit log.
	User string
	// Config is a configuration for clients without a limit on requests.
	Config *rest.Config
}

// Account makes a token for an existing ServiceAccount.
func (c *Cluster) Account(t testing.TB, namespace, name string) *Account {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	request, err := c.client(t).CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a token for ServiceAccount %s/%s: %v", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.QPS = c.config.QPS
	config.BearerToken = request.Status.Token
	return &Account{User: serviceaccount.MakeUsername(namespace, name), Config: config}
}

// WriteKubeconfig writes a kubeconfig with the account's token, and returns its path.
func (a *Account) WriteKubeconfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "account.kubeconfig")
	if err := a.WriteKubeconfigTo(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// WriteKubeconfigTo writes the kubeconfig to this file, for a process that outlives the test.
func (a *Account) WriteKubeconfigTo(path string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: a.Config.Host, CertificateAuthorityData: a.Config.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: a.Config.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, path)
}

// AwaitRight waits until the account has the right. The API server watches bindings, so a new one takes effect with a delay.
func (c *Cluster) AwaitRight(t testing.TB, account *Account, right authorizationv1.ResourceAttributes) {
	t.Helper()
	c.awaitRight(t, account, right, true)
}

// AwaitNoRight waits until the account does not have the right any more.
func (c *Cluster) AwaitNoRight(t testing.TB, account *Account, right authorizationv1.ResourceAttributes) {
	t.Helper()
	c.awaitRight(t, account, right, false)
}

func (c *Cluster) awaitRight(t testing.TB, account *Account, right authorizationv1.ResourceAttributes, want bool) {
	t.Helper()
	reviews := c.client(t).AuthorizationV1().SubjectAccessReviews()
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, requestTimeout, true, func(ctx context.Context) (bool, error) {
		review, err := reviews.Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: account.User, ResourceAttributes: &right},
		}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed == want, err
	})
	if err != nil {
		t.Fatalf("waiting until %s may %s %s, or not (%t): %v", account.User, right.Verb, right.Resource, want, err)
	}
}

func (c *Cluster) client(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
