// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/hook/credentials"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

func TestMain(m *testing.M) { testcluster.Main(m) }

// eventually waits until check returns "". It fails the test with the last complaint.
func eventually(t *testing.T, check func() (complaint string)) {
	t.Helper()
	if complaint := patience.Eventually(t.Context(), check); complaint != "" {
		t.Fatal(complaint)
	}
}

func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// advised matches the rule in the text of an error.
var advised = regexp.MustCompile(`\{apiGroups: .*?\["list", "watch"\]\}`)

// The rule that the error advises is enough to read a Secret and see its rotation, and grants nothing else.
func TestAdvisedRule(t *testing.T) {
	for _, streamed := range []bool{true, false} {
		t.Run(fmt.Sprintf("WatchListClient=%v", streamed), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, streamed)
			cluster := testcluster.Shared(t)
			admin, namespace := client(t, cluster.Config()), cluster.Namespace(t)
			write := func(name, value string) {
				t.Helper()
				cluster.Kubectl(t, "-n", namespace, "delete", "secret", name, "--ignore-not-found")
				cluster.Kubectl(t, "-n", namespace, "create", "secret", "generic", name, "--from-literal=token="+value)
			}
			write("token", "first")
			write("another", "of no interest")
			cluster.Kubectl(t, "-n", namespace, "create", "serviceaccount", "engine")
			engine := client(t, cluster.Account(t, namespace, "engine").Config)

			ctx, stop := context.WithCancel(t.Context())
			source := credentials.New(ctx, engine)
			defer func() {
				stop()
				source.Wait()
			}()
			var changes atomic.Int32
			hold := source.Hold(func() { changes.Add(1) }, credentials.Ref{Kind: credentials.Secret, Namespace: namespace, Name: "token"})
			defer hold.Release()
			eventually(t, func() string {
				if !hold.HasSynced() {
					return "the source has not synced, although its request was refused"
				}
				return ""
			})
			_, err := source.Secret(namespace, "token")
			var rule rbacv1.PolicyRule
			if !apierrors.IsForbidden(err) || yaml.UnmarshalStrict([]byte(advised.FindString(err.Error())), &rule) != nil || len(rule.Verbs) == 0 {
				t.Fatalf("got error %v, want one with the missing rule", err)
			}
			grant(t, admin, namespace, rule)

			wantToken := func(want string) {
				t.Helper()
				eventually(t, func() string {
					data, err := source.Secret(namespace, "token")
					if got := string(data["token"]); err != nil || got != want {
						return fmt.Sprintf("got token %q (%v), want %q", got, err, want)
					}
					return ""
				})
			}
			wantToken("first")
			before := changes.Load()
			cluster.Kubectl(t, "-n", namespace, "patch", "secret", "token", "--type=merge", `--patch={"stringData":{"token":"second"}}`)
			wantToken("second")
			eventually(t, func() string {
				if changes.Load() == before {
					return "the rotation was not reported"
				}
				return ""
			})
			write("token", "third")
			wantToken("third")

			if _, err := engine.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=another"}); !apierrors.IsForbidden(err) {
				t.Errorf("list of a Secret that no hook names: got %v, want forbidden", err)
			}
			cluster.Kubectl(t, "-n", namespace, "delete", "secret", "token")
			eventually(t, func() string {
				if _, err := source.Secret(namespace, "token"); err == nil || err.Error() != "it does not exist" {
					return fmt.Sprintf("Secret that was deleted: got %v, want that it does not exist", err)
				}
				return ""
			})
		})
	}
}

// grant gives the account a Role with the rule.
func grant(t *testing.T, admin kubernetes.Interface, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "engine"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := admin.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "engine"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "engine"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
