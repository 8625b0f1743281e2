// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

// install applies a manifest of cluster-scoped objects, in which NAME stands for the test's namespace, and deletes them when the test ends.
func (e *farmEnv) install(manifest string) {
	e.Helper()
	file := e.file(strings.ReplaceAll(manifest, "NAME", e.namespace))
	e.cluster.Kubectl(e, "apply", "-f", file)
	e.Cleanup(func() { e.cluster.Kubectl(e, "delete", "--ignore-not-found", "-f", file) })
}

// tryCreate creates a Llama as a dry run.
func (e *farmEnv) tryCreate(llama *farmv1alpha.Llama) (*farmv1alpha.Llama, error) {
	return e.llamas.Create(e.Context(), llama, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func TestFarmValidatingPolicy(t *testing.T) {
	e := inSharedFarm(t)
	e.install(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [farm.example.com], apiVersions: [v1alpha], resources: [llamas], operations: [CREATE, UPDATE, DELETE]}
  validations:
  - expression: request.operation == "DELETE" || object.spec.weight <= 500.0
    messageExpression: '"a llama of " + string(object.spec.weight) + " kg is a camel"'
  - expression: request.operation != "DELETE" || oldObject.metadata.name != "kept"
    message: this one is kept
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec:
  policyName: NAME
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}}
`)
	heavy := newLlama("heavy", func(llama *farmv1alpha.Llama) { llama.Spec.Weight = 600 })
	e.eventually(func() string {
		_, err := e.tryCreate(heavy)
		if err == nil {
			return "the Llama is still accepted"
		}
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a llama of 600 kg is a camel") {
			t.Fatalf("create: got %v, want the message of the policy", err)
		}
		return ""
	})
	e.createLlama(newLlama("dolly"))
	if got := e.kubectlFails("patch", "llama", "dolly", "--type=merge", "-p", `{"spec":{"weight":501}}`); !strings.Contains(got, "a llama of 501 kg is a camel") {
		t.Errorf("kubectl patch: got %s, want the message of the policy", got)
	}
	e.createLlama(newLlama("kept"))
	e.eventually(func() string { // the other server may know of the policy later
		err := e.llamas.Delete(t.Context(), "kept", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "this one is kept") {
			return fmt.Sprintf("delete: got %v, want forbidden", err)
		}
		return ""
	})
	if err := e.llamas.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete collection: got %v, want forbidden", err)
	}
	e.llama("kept")
}

func TestFarmMutatingPolicy(t *testing.T) {
	e := inSharedFarm(t)
	e.install(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  reinvocationPolicy: Never
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [farm.example.com], apiVersions: [v1alpha], resources: [llamas], operations: [CREATE]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"height": string(object.spec.height)}}, spec: Object.spec{weight: object.spec.weight + 1.0}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec:
  policyName: NAME
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}}
`)
	e.eventually(func() string {
		llama, err := e.tryCreate(newLlama("dolly"))
		if err != nil {
			return err.Error()
		}
		if llama.Labels["height"] != "0.5" || llama.Spec.Weight != 32.4 {
			return fmt.Sprintf("got %+v, want it changed by the policy", llama)
		}
		return ""
	})
}

// llamaWebhooks is a webhook server that adds an annotation to each Llama, and refuses those with the name evil.
type llamaWebhooks struct {
	mu       sync.Mutex
	problems []string
	calls    map[string]int
}

// ServeHTTP implements http.Handler.
func (h *llamaWebhooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var review admissionv1.AdmissionReview
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := review.Request
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[fmt.Sprint(r.URL.Path, " ", request.Operation, " dry=", *request.DryRun)]++
	isAdmin := request.UserInfo.Username == "kubernetes-admin" || strings.Contains(fmt.Sprint(request.UserInfo.Groups), "system:masters")
	if !isAdmin || request.Kind.Kind != "Llama" || request.Resource.Resource != "llamas" {
		h.problems = append(h.problems, fmt.Sprintf("got a request about a %s of %s by %+v", request.Kind, request.Resource, request.UserInfo))
	}
	review.Response = &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	switch {
	case r.URL.Path == "/mutate":
		form := admissionv1.PatchTypeJSONPatch
		review.Response.PatchType, review.Response.Patch = &form, []byte(`[{"op":"add","path":"/metadata/annotations","value":{"seen-by":"webhook"}}]`)
	case request.Name == "evil":
		review.Response.Allowed, review.Response.Result = false, &metav1.Status{Message: "no evil llamas"}
	}
	review.Request = nil
	answer, _ := json.Marshal(review)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func TestFarmWebhooks(t *testing.T) {
	e := inSharedFarm(t)
	hooks := &llamaWebhooks{calls: map[string]int{}}
	server := httptest.NewTLSServer(hooks)
	t.Cleanup(server.Close)
	bundle := base64.StdEncoding.EncodeToString(pemOf(server.Certificate()))
	webhook := func(kind, path string) string {
		return `
apiVersion: admissionregistration.k8s.io/v1
kind: ` + kind + `
metadata: {name: NAME}
webhooks:
- name: llamas.example.com
  clientConfig: {url: "` + server.URL + path + `", caBundle: ` + bundle + `}
  rules: [{apiGroups: [farm.example.com], apiVersions: [v1alpha], resources: [llamas], operations: [CREATE, UPDATE, DELETE]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}
  sideEffects: None
  admissionReviewVersions: [v1]
  matchConditions: [{name: not-deleted, expression: 'request.operation != "DELETE" || oldObject.metadata.name == "dolly"'}]
`
	}
	e.install(strings.Replace(webhook("MutatingWebhookConfiguration", "/mutate"), ", DELETE", "", 1) + "---" + webhook("ValidatingWebhookConfiguration", "/validate"))
	e.eventually(func() string {
		llama, err := e.tryCreate(newLlama("emma"))
		if err != nil {
			return err.Error()
		}
		if llama.Annotations["seen-by"] != "webhook" {
			return "the webhook was not called"
		}
		if _, err := e.tryCreate(newLlama("evil")); err == nil || !strings.Contains(err.Error(), `admission webhook "llamas.example.com" denied the request: no evil llamas`) {
			return fmt.Sprintf("create of a Llama with the name evil: got %v, want it denied", err)
		}
		return ""
	})
	e.createLlama(newLlama("dolly"))
	if _, err := e.llamas.Patch(t.Context(), "dolly", types.MergePatchType, []byte(`{"spec":{"weight":40}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if err := e.llamas.Delete(t.Context(), "dolly", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	hooks.mu.Lock()
	defer hooks.mu.Unlock()
	for _, call := range []string{
		"/mutate CREATE dry=true", "/validate CREATE dry=true", "/mutate CREATE dry=false", "/validate CREATE dry=false",
		"/mutate UPDATE dry=false", "/validate UPDATE dry=false", "/validate DELETE dry=false",
	} {
		if hooks.calls[call] == 0 {
			t.Errorf("got calls %v, want %s too", hooks.calls, call)
		}
	}
	if len(hooks.problems) > 0 {
		t.Error(hooks.problems)
	}
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func TestFarmNamespaceLifecycle(t *testing.T) {
	e := inSharedFarm(t)
	_, err := e.client.FarmV1alpha().Llamas("nowhere-at-all").Create(t.Context(), newLlama("dolly"), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "nowhere-at-all" not found`) {
		t.Errorf("create in a namespace that does not exist: got %v, want not found", err)
	}
	if list, err := e.client.FarmV1alpha().Llamas("nowhere-at-all").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("list in a namespace that does not exist: got %v, %v, want an empty list", list, err)
	}
	// The server accepts Llamas in a new namespace immediately.
	fresh := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fresh-"}}
	fresh, err = e.kube.CoreV1().Namespaces().Create(t.Context(), fresh, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.FarmV1alpha().Llamas(fresh.Name).Create(t.Context(), newLlama("dolly"), metav1.CreateOptions{}); err != nil {
		t.Errorf("create in a new namespace: %v", err)
	}
	// A ConfigMap with a finalizer keeps the namespace terminating.
	keeper := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "keeper", Finalizers: []string{"example.com/wait"}}}
	if _, err := e.kube.CoreV1().ConfigMaps(fresh.Name).Create(t.Context(), keeper, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.beginDeletion(fresh.Name)
	e.eventually(func() string {
		_, err := e.client.FarmV1alpha().Llamas(fresh.Name).Create(t.Context(), newLlama("emma"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Sprintf("create in a terminating namespace: got %v, want forbidden", err)
		}
		return ""
	})
	release := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := e.kube.CoreV1().ConfigMaps(fresh.Name).Patch(t.Context(), "keeper", types.MergePatchType, release, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if _, err := e.kube.CoreV1().Namespaces().Get(t.Context(), fresh.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the namespace still exists: %v", err)
		}
		return ""
	})
}
