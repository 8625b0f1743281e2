// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/yaml"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/certs"
	"millwright.dev/pkg/controller/servingcert"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

// tutorialNamespace is the namespace of the farm with the component farm-tutorial, and in an earlier version.
const tutorialNamespace = metav1.NamespaceDefault

// kustomizeFarm returns the objects of the farm as hack/deploy.sh renders them, without those that concern Pods. The patches are those of
// a kustomization.
func kustomizeFarm(t *testing.T, cluster *testcluster.Cluster, tutorial bool, patches string) (objects []*unstructured.Unstructured) {
	t.Helper()
	manifests, err := filepath.Abs("../../../manifests")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(manifests, filepath.Join(dir, "manifests")); err != nil {
		t.Fatal(err)
	}
	text := "resources: [manifests/farm]\n"
	if tutorial {
		text += "components: [manifests/farm-tutorial]\n"
	}
	if patches != "" {
		text += "patches:\n" + patches
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(cluster.Kubectl(t, "kustomize", dir), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// No object of the farm is in a namespace in which other users may edit objects.
func TestFarmNamespaceOfManifests(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Shared(t)
	for _, object := range kustomizeFarm(t, cluster, false, "") {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		elsewhere := !slices.Contains([]string{"", farmNamespace, metav1.NamespaceSystem}, object.GetNamespace())
		if elsewhere || strings.Contains(string(text), "default/") || strings.Contains(string(text), "namespace: default") {
			t.Errorf("%s %s is in the namespace default, or refers to it:\n%s", object.GetKind(), object.GetName(), text)
		}
	}
	for _, object := range kustomizeFarm(t, cluster, true, "") {
		switch namespace := object.GetNamespace(); {
		case object.GetKind() == "RoleBinding" && object.GetName() == "millwright-core-farm":
		case namespace != "" && namespace != tutorialNamespace && namespace != metav1.NamespaceSystem:
			t.Errorf("with farm-tutorial, %s %s is in namespace %s", object.GetKind(), object.GetName(), namespace)
		default:
			if text, _ := yaml.Marshal(object); strings.Contains(string(text), farmNamespace) {
				t.Errorf("with farm-tutorial, %s %s refers to %s:\n%s", object.GetKind(), object.GetName(), farmNamespace, text)
			}
		}
	}
}

// TestFarmEditorOfNamespaceDefault acts as an attacker who may edit the namespace default: he gets neither the key of the authority nor the
// right to list Pods.
func TestFarmEditorOfNamespaceDefault(t *testing.T) {
	e := inSharedFarm(t)
	cluster := e.cluster
	cluster.Kubectl(t, "create", "serviceaccount", "editor", "-n", tutorialNamespace)
	cluster.Kubectl(t, "create", "rolebinding", "editor", "-n", tutorialNamespace, "--clusterrole=edit", "--serviceaccount="+tutorialNamespace+":editor")
	editor := cluster.Account(t, tutorialNamespace, "editor")
	cluster.AwaitRight(t, editor, authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: tutorialNamespace})

	secrets, err := e.kube.CoreV1().Secrets(tutorialNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets.Items {
		if _, has := secret.Data[certs.DataAuthorityKeys]; has || secret.Name == servingSecret {
			t.Errorf("an editor of the namespace %s can read the Secret %s", tutorialNamespace, secret.Name)
		}
	}
	accounts, err := e.kube.CoreV1().ServiceAccounts(tutorialNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range accounts.Items {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               serviceaccount.MakeUsername(tutorialNamespace, account.Name),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"},
		}}
		review, err := e.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed {
			t.Errorf("list of Pods as ServiceAccount %s of the namespace default: got allowed (%v), want denied", account.Name, err)
		}
	}
	serving, err := e.kube.CoreV1().Secrets(farmNamespace).Get(t.Context(), servingSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key := range serving.Data {
		if key != corev1.TLSCertKey && key != corev1.TLSPrivateKeyKey && key != certs.DataBundle {
			t.Errorf("Secret that the server reads: got the key %s", key)
		}
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               farmOperator.user(),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: farmNamespace, Name: authoritySecret},
	}}
	if review, err = e.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil || review.Status.Allowed {
		t.Errorf("get of the authority's key by the server: got allowed (%v), want denied", err)
	}
}

// script runs functions of hack/farm.sh against the cluster, as hack/deploy.sh does.
func script(t *testing.T, cluster *testcluster.Cluster, commands string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-c", `set -o errexit -o nounset -o pipefail
fail() { printf '%s\n' "$@" >&2; exit 1; }
kubectl() { bin/kubectl --kubeconfig "$CLUSTER_KUBECONFIG" "$@"; }
source hack/farm.sh
`+commands)
	command.Dir = filepath.Join("..", "..", "..")
	command.Env = append(os.Environ(), "CLUSTER_KUBECONFIG="+cluster.Kubeconfig())
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, output)
	}
	return string(output)
}

// place is one of the two namespaces of the farm, with a Service and a server of its own.
type place struct {
	namespace string
	tutorial  bool
	front     *front
	server    *farmServer
}

// install applies the Service and the objects that do not concern Pods, with or without the APIService.
func (p *place) install(t *testing.T, cluster *testcluster.Cluster, patches string, withAPIService bool) {
	t.Helper()
	objects := []*unstructured.Unstructured{externalService(p.namespace)}
	for _, object := range kustomizeFarm(t, cluster, p.tutorial, patches) {
		if object.GetKind() == "APIService" {
			if !withAPIService {
				continue
			}
			setPort(t, object, p.front.port())
		}
		if !slices.Contains(notInstalled, object.GetKind()) {
			objects = append(objects, object)
		}
	}
	applyObjects(t, cluster, objects)
}

// start starts a server with the rights of the account in the namespace.
func (p *place) start(t *testing.T, cluster *testcluster.Cluster) {
	t.Helper()
	account := cluster.Account(t, p.namespace, string(farmOperator))
	cluster.AwaitRight(t, account, authorizationv1.ResourceAttributes{Verb: "list", Group: "storage.farm.example.com", Resource: "llamarecords"})
	server, err := launchFarmServer(buildBinary(t), account.WriteKubeconfig(t), "--serving-secret="+p.namespace+"/"+servingSecret)
	if err != nil {
		t.Fatal(err)
	}
	p.server = server
	p.front.add(server.address)
	t.Cleanup(func() {
		if err := server.terminate(); err != nil {
			t.Error(err)
		}
	})
}

// TestFarmMovesFromNamespaceDefault upgrades, as make deploy does, an installation of an earlier version, which had one Secret in the
// namespace default. No request may fail meanwhile.
func TestFarmMovesFromNamespaceDefault(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Start(t, clusterOptions...)
	e := newEnv(t, cluster)
	from, to := &place{namespace: tutorialNamespace, tutorial: true}, &place{namespace: farmNamespace}
	for _, p := range []*place{from, to} {
		var err error
		if p.front, err = openFront(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.front.close)
	}
	account := core.account(t, cluster)
	kubeconfig := account.WriteKubeconfig(t)
	keepCertificate := func(namespace string) (stop func()) {
		right := authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: namespace, Name: servingSecret}
		cluster.AwaitRight(t, account, right)
		return runManagerWith(t, func(options *manager.Options) {
			options.Kubeconfig, options.Controllers = kubeconfig, []string{servingcert.ControllerName}
			setFlag(t, options, "farm-namespace", namespace)
		})
	}
	from.install(t, cluster, "", true)
	stop := keepCertificate(tutorialNamespace)
	from.start(t, cluster)
	cluster.AwaitAPIService(t, farmv1alpha.SchemeGroupVersion)
	stop()
	// Restore the state of the earlier version: all keys in one Secret, and the rights of millwright-core in a Role of another name.
	authority, err := e.kube.CoreV1().Secrets(farmNamespace).Get(t.Context(), authoritySecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	former, err := e.kube.CoreV1().Secrets(tutorialNamespace).Get(t.Context(), servingSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range authority.Data {
		former.Data[key] = value
	}
	if _, err := e.kube.CoreV1().Secrets(tutorialNamespace).Update(t.Context(), former, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "delete", "secret", "-n", farmNamespace, authoritySecret)
	cluster.Kubectl(t, "create", "role", "millwright-core", "-n", tutorialNamespace, "--verb=get", "--resource=secrets", "--resource-name="+servingSecret)

	load := startLlamaLoad(t, e)
	if got := strings.TrimSpace(script(t, cluster, "former_farm "+farmNamespace)); got != tutorialNamespace {
		t.Fatalf("former_farm: got %q, want %q", got, tutorialNamespace)
	}
	to.install(t, cluster, script(t, cluster, "both_farms "+tutorialNamespace+" "+farmNamespace), false)
	keepCertificate(farmNamespace)
	to.start(t, cluster)
	to.server.awaitReady(t, cluster)
	script(t, cluster, fmt.Sprintf("farm_port=%d; switch_farm %s", to.front.port(), farmNamespace))
	to.install(t, cluster, "", true)
	load.more(t, 20)
	cluster.AwaitAPIService(t, farmv1alpha.SchemeGroupVersion)
	script(t, cluster, "remove_farm "+tutorialNamespace)
	from.front.remove(from.server.address)
	load.more(t, 20)
	load.stop(t)

	left := cluster.Kubectl(t, "get", "services,serviceaccounts,roles,rolebindings,secrets", "-n", tutorialNamespace, "-o", "name")
	for name := range strings.Lines(left) {
		if strings.Contains(name, "farm-operator") && !strings.HasPrefix(name, "service/") || strings.Contains(name, "millwright") {
			t.Errorf("%s still exists", strings.TrimSpace(name))
		}
	}
	if got := strings.TrimSpace(script(t, cluster, "former_farm "+farmNamespace)); got != "" {
		t.Errorf("former_farm after the move: got %q, want none", got)
	}
	if _, err := e.client.FarmV1alpha().Llamas(e.namespace).Create(t.Context(), newLlama("last"), metav1.CreateOptions{}); err != nil {
		t.Errorf("create after the move: %v", err)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               serviceaccount.MakeUsername(tutorialNamespace, string(farmOperator)),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"},
	}}
	if review, err = e.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil || review.Status.Allowed {
		t.Errorf("list of Pods by the account in the namespace default: got allowed (%v), want denied", err)
	}
}

// llamaLoad creates and reads Llamas, one after the other.
type llamaLoad struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	done   atomic.Int64
	mu     sync.Mutex
	failed error
}

func startLlamaLoad(t *testing.T, e *env) *llamaLoad {
	ctx, cancel := context.WithCancel(t.Context())
	l := &llamaLoad{cancel: cancel}
	llamas := e.client.FarmV1alpha().Llamas(e.namespace)
	l.ended.Go(func() {
		for ctx.Err() == nil {
			created := newLlama("")
			created.GenerateName = "load-"
			created, err := llamas.Create(ctx, created, metav1.CreateOptions{})
			if err == nil {
				_, err = llamas.Get(ctx, created.Name, metav1.GetOptions{})
			}
			if err != nil && ctx.Err() == nil {
				l.mu.Lock()
				l.failed = errors.Join(l.failed, err)
				l.mu.Unlock()
			}
			l.done.Add(1)
		}
	})
	l.more(t, 5)
	return l
}

// more waits until n more Llamas were created.
func (l *llamaLoad) more(t *testing.T, n int64) {
	t.Helper()
	begin := l.done.Load()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience.Limit, true, func(context.Context) (bool, error) {
		return l.done.Load() >= begin+n, nil
	})
	if err != nil {
		t.Fatalf("got %d more Llamas, want %d: %v", l.done.Load()-begin, n, err)
	}
}

func (l *llamaLoad) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	l.ended.Wait()
	t.Logf("created and read %d Llamas", l.done.Load())
	if l.failed != nil {
		t.Errorf("requests failed: %v", l.failed)
	}
}
