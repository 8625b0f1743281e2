// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	farmstorage "millwright.dev/pkg/apis/farmstorage/v1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/testcluster"
)

// A client that can reach the Pods of the farm can send them requests directly, without the API server of the cluster.
func TestFarmDirectAuthentication(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	path := "/apis/farm.example.com/v1alpha/namespaces/" + e.namespace + "/llamas/dolly"
	asAdmin := map[string]string{"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
	impersonated := map[string]string{"Impersonate-User": "kubernetes-admin", "Impersonate-Group": "system:masters"}
	ofCluster, ofFrontProxy := signerOf(t, e.cluster, "ca"), signerOf(t, e.cluster, "front-proxy-ca")
	token := e.serviceAccount("norights").Config.BearerToken
	for name, test := range map[string]struct {
		tls    rest.TLSClientConfig
		token  string
		header map[string]string
		code   int
		says   string
	}{
		"anonymous":                     {code: 401},
		"anonymous with forged headers": {header: asAdmin, code: 401},
		"anonymous impersonation":       {header: impersonated, code: 401},
		"impersonation without a right": {token: token, header: impersonated, code: 403, says: e.namespace + ":norights"},
		"anonymous, by the front proxy": {tls: ofFrontProxy.client(t, "front-proxy-client"), header: map[string]string{"X-Remote-User": "system:anonymous"}, code: 403,
			says: `User \"system:anonymous\" cannot get`},
		"invalid token":                    {token: "0123", code: 401},
		"invalid token with headers":       {token: "0123", header: asAdmin, code: 401},
		"ServiceAccount":                   {token: token, code: 403, says: e.namespace + `:norights\" cannot get resource \"llamas\"`},
		"ServiceAccount with headers":      {token: token, header: asAdmin, code: 403, says: e.namespace + ":norights"},
		"user of the cluster":              {tls: ofCluster.client(t, "mallory"), code: 403, says: `User \"mallory\" cannot get`},
		"user of the cluster with headers": {tls: ofCluster.client(t, "mallory"), header: asAdmin, code: 403, says: `User \"mallory\" cannot get`},
		"front proxy's name, cluster CA": {tls: ofCluster.client(t, "front-proxy-client"), header: asAdmin, code: 403,
			says: `User \"front-proxy-client\" cannot get`},
		"another name, front proxy CA":   {tls: ofFrontProxy.client(t, "mallory"), header: asAdmin, code: 401},
		"front proxy's name, unknown CA": {tls: newSigner(t, "x").client(t, "front-proxy-client"), header: asAdmin, code: 401},
		"front proxy's name, CA of same name": {tls: newSigner(t, ofFrontProxy.Certificate.Subject.CommonName).client(t, "front-proxy-client"),
			header: asAdmin, code: 401},
		"front proxy without user": {tls: ofFrontProxy.client(t, "front-proxy-client"), code: 401},
		"front proxy for a user": {tls: ofFrontProxy.client(t, "front-proxy-client"), header: map[string]string{"X-Remote-User": "jane"}, code: 403,
			says: `User \"jane\" cannot get`},
		"front proxy for an administrator": {tls: ofFrontProxy.client(t, "front-proxy-client"), header: asAdmin, code: 200, says: "dolly"},
		"administrator":                    {tls: ofCluster.client(t, "root", "system:masters"), code: 200, says: "dolly"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, server := range e.farm.replicas {
				config := server.as(&rest.Config{TLSClientConfig: test.tls, BearerToken: test.token})
				response, body := httpGet(t, config, path, test.header)
				if response.StatusCode != test.code || !strings.Contains(string(body), test.says) {
					t.Errorf("got %s: %s, want %d with %q", response.Status, body, test.code, test.says)
				}
			}
		})
	}
}

func TestFarmHealthAndMetricsAccess(t *testing.T) {
	e := inSharedFarm(t)
	server := e.farm.replicas[0]
	anonymous, admin := server.as(&rest.Config{}), server.as(e.cluster.Config())
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if response, body := httpGet(t, anonymous, path, nil); response.StatusCode != http.StatusOK {
			t.Errorf("anonymous GET %s: got %s: %s, want 200", path, response.Status, body)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/openapi/v2", "/apis"} {
		if response, body := httpGet(t, anonymous, path, nil); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("anonymous GET %s: got %s: %s, want 401", path, response.Status, body)
		}
	}
	if _, err := e.llamas.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	var metrics string
	for _, replica := range e.farm.replicas {
		_, body := httpGet(t, replica.as(e.cluster.Config()), "/metrics", nil)
		metrics += string(body)
	}
	for _, wanted := range []string{`apiserver_request_total{code="200",.*resource="llamas",.*verb="LIST"`, "go_goroutines", "process_start_time_seconds"} {
		if !regexp.MustCompile("(?m)^" + wanted).MatchString(metrics) {
			t.Errorf("no metric starts with %s", wanted)
		}
	}
	if response, body := httpGet(t, admin, "/readyz?verbose", nil); response.StatusCode != http.StatusOK || !strings.Contains(string(body), "[+]") {
		t.Errorf("GET /readyz?verbose: got %s: %s, want 200 with the checks", response.Status, body)
	}
}

// serviceAccount creates a ServiceAccount without rights in the test's namespace.
func (e *farmEnv) serviceAccount(name string) *testcluster.Account {
	e.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := e.kube.CoreV1().ServiceAccounts(e.namespace).Create(e.Context(), account, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	return e.cluster.Account(e, e.namespace, name)
}

// bind binds one of the built-in ClusterRoles to the ServiceAccount in the test's namespace.
func (e *farmEnv) bind(name, role string) {
	e.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.namespace, Name: name}},
	}
	if _, err := e.kube.RbacV1().RoleBindings(e.namespace).Create(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// The manifests add the rights to the ClusterRoles view, edit and admin. They hold for requests through the cluster and for direct ones.
func TestFarmViewAndEditRoles(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	for _, role := range []string{"view", "edit", "admin"} {
		account := e.serviceAccount(role)
		e.bind(role, role)
		writes := role != "view"
		for way, config := range map[string]*rest.Config{"through the cluster": account.Config, "direct": e.farm.replicas[0].as(account.Config)} {
			t.Run(role+" "+way, func(t *testing.T) {
				client, err := versioned.NewForConfig(config)
				if err != nil {
					t.Fatal(err)
				}
				llamas, pods := client.FarmV1alpha().Llamas(e.namespace), client.FarmV1alpha().FarmPods(e.namespace)
				e.eventually(func() string {
					if _, err := llamas.Get(t.Context(), "dolly", metav1.GetOptions{}); err != nil {
						return err.Error()
					}
					return ""
				})
				if _, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil {
					t.Errorf("list of FarmPods: %v", err)
				}
				tried := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
				if _, err := llamas.Create(t.Context(), newLlama("emma"), tried); writes && err != nil || !writes && !apierrors.IsForbidden(err) {
					t.Errorf("create: got %v, want it allowed: %t", err, writes)
				}
				none := metav1.ListOptions{LabelSelector: "no=match"}
				if err := llamas.DeleteCollection(t.Context(), metav1.DeleteOptions{}, none); writes && err != nil || !writes && !apierrors.IsForbidden(err) {
					t.Errorf("delete collection: got %v, want it allowed: %t", err, writes)
				}
				if _, err := client.FarmV1alpha().Llamas("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
					t.Errorf("list in another namespace: got %v, want forbidden", err)
				}
			})
		}
		client, err := versioned.NewForConfig(account.Config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.FarmStorageV1().LlamaRecords(e.namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("list of records with the role %s: got %v, want forbidden", role, err)
		}
	}
}

// Only the API server of the farm may write the records of Llamas.
func TestFarmRecordsReadOnly(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	records := e.client.FarmStorageV1().LlamaRecords(e.namespace)
	record, err := records.Get(t.Context(), "dolly", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if record.UID == e.llama("dolly").UID {
		t.Error("the record has the UID of its Llama: the garbage collector would mistake one for the other")
	}
	if len(record.OwnerReferences) > 0 || len(record.Finalizers) > 0 {
		t.Errorf("got owners %v and finalizers %v, want none", record.OwnerReferences, record.Finalizers)
	}
	forged := &farmstorage.LlamaRecord{ObjectMeta: metav1.ObjectMeta{Name: "emma"}, Spec: *record.Spec.DeepCopy()}
	_, createErr := records.Create(t.Context(), forged, metav1.CreateOptions{})
	record.Labels = map[string]string{"by": "hand"}
	_, updateErr := records.Update(t.Context(), record, metav1.UpdateOptions{})
	for doing, err := range map[string]error{
		"creating": createErr,
		"updating": updateErr,
		"patching": errorOf(records.Patch(t.Context(), "dolly", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"by":"hand"}}}`), metav1.PatchOptions{})),
		"deleting": records.Delete(t.Context(), "dolly", metav1.DeleteOptions{}),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "a LlamaRecord is written by the API server of farm.example.com alone") {
			t.Errorf("%s a record: got %v, want forbidden", doing, err)
		}
	}
	if e.llama("dolly").Labels["by"] != "" {
		t.Error("the Llama was changed")
	}
}

func errorOf[T any](_ T, err error) error { return err }
