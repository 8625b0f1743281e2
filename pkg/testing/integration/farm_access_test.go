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

// Whoever can reach the Pods of the farm can send them requests, past the API server of the cluster.
func TestFarmDirectAuthentication(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	path := "/apis/farm.example.com/v1alpha/namespaces/" + e.namespace + "/llamas/dolly"
	asAdmin := map[string]string{"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
	ofCluster, ofFrontProxy := signerOf(t, e.cluster, "ca"), signerOf(t, e.cluster, "front-proxy-ca")
	token := e.serviceAccount("nobody").Config.BearerToken
	for name, test := range map[string]struct {
		tls    rest.TLSClientConfig
		token  string
		header map[string]string
		code   int
		says   string
	}{
		"nobody":                              {code: 403, says: `User \"system:anonymous\" cannot get`},
		"nobody, with forged headers":         {header: asAdmin, code: 403, says: `User \"system:anonymous\" cannot get`},
		"who impersonates, with no right to":  {header: map[string]string{"Impersonate-User": "kubernetes-admin", "Impersonate-Group": "system:masters"}, code: 403, says: "system:anonymous"},
		"a token that is none":                {token: "0123", code: 401},
		"a token that is none, and headers":   {token: "0123", header: asAdmin, code: 401},
		"a ServiceAccount":                    {token: token, code: 403, says: e.namespace + `:nobody\" cannot get resource \"llamas\"`},
		"a ServiceAccount with headers":       {token: token, header: asAdmin, code: 403, says: e.namespace + ":nobody"},
		"a user of the cluster":               {tls: ofCluster.client(t, "mallory"), code: 403, says: `User \"mallory\" cannot get`},
		"a user of the cluster, with headers": {tls: ofCluster.client(t, "mallory"), header: asAdmin, code: 403, says: `User \"mallory\" cannot get`},
		"the name of the front proxy, signed by the cluster": {tls: ofCluster.client(t, "front-proxy-client"), header: asAdmin, code: 403,
			says: `User \"front-proxy-client\" cannot get`},
		"another name, signed for front proxies":             {tls: ofFrontProxy.client(t, "mallory"), header: asAdmin, code: 401},
		"the name of the front proxy, signed by an unknown":  {tls: newSigner(t, "x").client(t, "front-proxy-client"), header: asAdmin, code: 401},
		"an authority of the same name as the front proxy's": {tls: newSigner(t, ofFrontProxy.certificate.Subject.CommonName).client(t, "front-proxy-client"), header: asAdmin, code: 401},
		"the front proxy without a user":                     {tls: ofFrontProxy.client(t, "front-proxy-client"), code: 401},
		"the front proxy for somebody": {tls: ofFrontProxy.client(t, "front-proxy-client"), header: map[string]string{"X-Remote-User": "somebody"}, code: 403,
			says: `User \"somebody\" cannot get`},
		"the front proxy for an administrator": {tls: ofFrontProxy.client(t, "front-proxy-client"), header: asAdmin, code: 200, says: "dolly"},
		"an administrator":                     {tls: ofCluster.client(t, "root", "system:masters"), code: 200, says: "dolly"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, server := range e.farm.replicas {
				config := server.as(&rest.Config{TLSClientConfig: test.tls, BearerToken: test.token})
				response, body := ask(t, config, path, test.header)
				if response.StatusCode != test.code || !strings.Contains(string(body), test.says) {
					t.Errorf("%s: %s", response.Status, body)
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
		if response, body := ask(t, anonymous, path, nil); response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: %s", path, response.Status, body)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/openapi/v2", "/apis"} {
		if response, body := ask(t, anonymous, path, nil); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s: %s", path, response.Status, body)
		}
	}
	if _, err := e.llamas.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	var metrics string
	for _, replica := range e.farm.replicas {
		_, body := ask(t, replica.as(e.cluster.Config()), "/metrics", nil)
		metrics += string(body)
	}
	for _, wanted := range []string{`apiserver_request_total{code="200",.*resource="llamas",.*verb="LIST"`, "go_goroutines", "process_start_time_seconds"} {
		if !regexp.MustCompile("(?m)^" + wanted).MatchString(metrics) {
			t.Errorf("no metric begins with %s", wanted)
		}
	}
	if response, body := ask(t, admin, "/readyz?verbose", nil); response.StatusCode != http.StatusOK || !strings.Contains(string(body), "[+]") {
		t.Errorf("readyz?verbose: %s: %s", response.Status, body)
	}
}

// serviceAccount makes one in the test's namespace, without rights.
func (e *farmEnv) serviceAccount(name string) *testcluster.Account {
	e.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := e.kube.CoreV1().ServiceAccounts(e.namespace).Create(e.Context(), account, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	return e.cluster.Account(e, e.namespace, name)
}

// bind gives it one of the ClusterRoles that everyone knows, in the test's namespace.
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

// The rights are those that the manifests give to view, edit and admin; asked for through the cluster and straight at the server.
func TestFarmViewAndEditRoles(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	for _, role := range []string{"view", "edit", "admin"} {
		account := e.serviceAccount(role)
		e.bind(role, role)
		writes := role != "view"
		for way, config := range map[string]*rest.Config{"through the cluster": account.Config, "straight": e.farm.replicas[0].as(account.Config)} {
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
					t.Errorf("FarmPods: %v", err)
				}
				tried := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
				if _, err := llamas.Create(t.Context(), newLlama("emma"), tried); writes && err != nil || !writes && !apierrors.IsForbidden(err) {
					t.Errorf("creating one: %v", err)
				}
				none := metav1.ListOptions{LabelSelector: "nobody=has"}
				if err := llamas.DeleteCollection(t.Context(), metav1.DeleteOptions{}, none); writes && err != nil || !writes && !apierrors.IsForbidden(err) {
					t.Errorf("deleting some: %v", err)
				}
				if _, err := client.FarmV1alpha().Llamas("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
					t.Errorf("those of another namespace: %v", err)
				}
			})
		}
		client, err := versioned.NewForConfig(account.Config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.FarmStorageV1().LlamaRecords(e.namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: the records: %v", role, err)
		}
	}
}

func TestFarmRecordsReadOnly(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	records := e.client.FarmStorageV1().LlamaRecords(e.namespace)
	record, err := records.Get(t.Context(), "dolly", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if record.UID == e.llama("dolly").UID {
		t.Error("it has the UID of its Llama: the garbage collector takes one for the other")
	}
	if len(record.OwnerReferences) > 0 || len(record.Finalizers) > 0 {
		t.Errorf("it has %v and %v", record.OwnerReferences, record.Finalizers)
	}
	forged := &farmstorage.LlamaRecord{ObjectMeta: metav1.ObjectMeta{Name: "emma"}, Spec: *record.Spec.DeepCopy()}
	_, createErr := records.Create(t.Context(), forged, metav1.CreateOptions{})
	record.Labels = map[string]string{"by": "hand"}
	_, updateErr := records.Update(t.Context(), record, metav1.UpdateOptions{})
	for doing, err := range map[string]error{
		"creating": createErr,
		"updating": updateErr,
		"patching": cause(records.Patch(t.Context(), "dolly", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"by":"hand"}}}`), metav1.PatchOptions{})),
		"deleting": records.Delete(t.Context(), "dolly", metav1.DeleteOptions{}),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "a LlamaRecord is written by the API server of farm.example.com alone") {
			t.Errorf("%s: %v", doing, err)
		}
	}
	if e.llama("dolly").Labels["by"] != "" {
		t.Error("the Llama has changed")
	}
}

func cause[T any](_ T, err error) error { return err }
