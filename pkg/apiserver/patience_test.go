// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/generated/clientset/versioned"
)

const recordsPath = "/apis/storage.farm.example.com/v1/namespaces/default/llamarecords"

// initializing is the answer of an API server that fills the cache of a CRD.
func initializing() *metav1.Status {
	status := apierrors.NewTooManyRequests("storage is (re)initializing", 1).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

func TestRetryWhileRecordsAreInitialized(t *testing.T) {
	s := start(t, "--llama-storage=records")
	farmer := s.as(t, "farmer")
	dolly := body("dolly", dollySpec)
	for _, path := range []string{recordsPath, recordsPath + "/dolly"} {
		s.set(path, initializing())
	}
	for _, request := range []struct{ verb, path, body string }{
		{"POST", llamas, dolly}, {"GET", llamas + "/dolly", ""}, {"PUT", llamas + "/dolly", dolly}, {"DELETE", llamas + "/dolly", ""},
		{"GET", llamas, ""}, {"DELETE", llamas, ""}, {"GET", llamas + "?watch=true", ""}, {"GET", llamas + "?watch=true&resourceVersion=5", ""},
	} {
		answer := farmer.expect(t, 429, request.verb, request.path, request.body)
		if after := answer.header.Get("Retry-After"); after != "1" {
			t.Errorf("%s %s: Retry-After is %q: %s", request.verb, request.path, after, answer.body)
		}
	}
}

// TestAClientIsServedWhenTheRecordsAre goes by client-go, as kubectl does.
func TestAClientIsServedWhenTheRecordsAre(t *testing.T) {
	s := start(t, "--llama-storage=records")
	pair := s.front.Issue(t, "front-proxy")
	client, err := versioned.NewForConfig(&rest.Config{
		Host:            "https://" + s.address,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: pair.Cert, KeyData: pair.Key},
		WrapTransport:   speakingFor("farmer"),
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	s.kube.answering(recordsPath+"/dolly", func() any {
		if refused++; refused < 3 {
			return initializing()
		}
		llama := &v1alpha.Llama{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "dolly", UID: "of-dolly"}, Spec: v1alpha.LlamaSpec{Weight: 31.4, Height: 0.5}}
		llama.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha.GroupVersion.String(), Kind: "Llama"}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(llama)
		if err != nil {
			t.Error(err)
		}
		return map[string]any{
			"apiVersion": "storage.farm.example.com/v1", "kind": "LlamaRecord",
			"metadata": map[string]any{"namespace": "default", "name": "dolly", "resourceVersion": "5"}, "spec": map[string]any{"object": object},
		}
	})
	llama, err := client.FarmV1alpha().Llamas("default").Get(t.Context(), "dolly", metav1.GetOptions{})
	if err != nil || llama.Spec.Weight != 31.4 {
		t.Errorf("after %d refusals: %v, %v", refused, llama, err)
	}
}

// speakingFor has every request say for whom it is, as the front proxy does.
func speakingFor(user string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			request = request.Clone(request.Context())
			request.Header.Set("X-Remote-User", user)
			return next.RoundTrip(request)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
