// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwriter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/objectcache"
)

// sent is a request as the API server gets it.
type sent struct{ Method, Path, Query, ContentType, Accept, Body string }

const webConfig = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop","uid":"u-1","resourceVersion":"7"},"data":{"a":"b"}}`

// serve makes a Writer for an API server that gives this answer, and tells what it was sent.
func serve(t *testing.T, code int, answer string) (*Writer, *[]sent) {
	t.Helper()
	var requests []sent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, sent{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Accept"), string(body)})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	// Configurations of others have what is theirs: it must not matter.
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf"}}
	writer, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if config.ContentType != "application/vnd.kubernetes.protobuf" {
		t.Error("the configuration of the caller was changed")
	}
	return writer, &requests
}

func TestEachObjectHasItsPath(t *testing.T) {
	for _, test := range []struct {
		group, version, resource, namespace, path string
	}{
		{"", "v1", "configmaps", "shop", "/api/v1/namespaces/shop/configmaps"},
		{"", "v1", "namespaces", "", "/api/v1/namespaces"},
		{"apps", "v1", "deployments", "shop", "/apis/apps/v1/namespaces/shop/deployments"},
		{"rbac.authorization.k8s.io", "v1", "clusterroles", "", "/apis/rbac.authorization.k8s.io/v1/clusterroles"},
	} {
		t.Run(test.resource, func(t *testing.T) {
			writer, requests := serve(t, http.StatusOK, webConfig)
			name := Name{schema.GroupVersionResource{Group: test.group, Version: test.version, Resource: test.resource}, test.namespace, "web"}
			object := []byte(webConfig)
			for _, request := range []func() error{
				func() error { _, err := writer.Get(t.Context(), name); return err },
				func() error { _, err := writer.Create(t.Context(), name, object); return err },
				func() error { _, err := writer.Update(t.Context(), name, object); return err },
				func() error { _, err := writer.UpdateStatus(t.Context(), name, object); return err },
			} {
				if err := request(); err != nil {
					t.Fatal(err)
				}
			}
			const encoding = "application/json"
			want := []sent{
				{Method: "GET", Path: test.path + "/web", Accept: encoding},
				{Method: "POST", Path: test.path, ContentType: encoding, Accept: encoding, Body: webConfig},
				{Method: "PUT", Path: test.path + "/web", ContentType: encoding, Accept: encoding, Body: webConfig},
				{Method: "PUT", Path: test.path + "/web/status", ContentType: encoding, Accept: encoding, Body: webConfig},
			}
			if diff := cmp.Diff(want, *requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

var configMap = Name{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "shop", "web"}

func TestWhatTheAPIServerHasMadeOfAnObjectComesBack(t *testing.T) {
	writer, _ := serve(t, http.StatusCreated, webConfig)
	object, err := writer.Create(t.Context(), configMap, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if object.GetUID() != "u-1" || object.GetResourceVersion() != "7" || object.GetName() != "web" || object.GetNamespace() != "shop" || !strings.Contains(object.JSON(), `"data":{"a":"b"}`) {
		t.Errorf("it is %s", object.JSON())
	}
}

// Another object may have the name by now, and what the object owns is not left behind.
func TestADeletionIsOfOneObjectAndOfWhatItOwns(t *testing.T) {
	writer, requests := serve(t, http.StatusOK, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	if err := writer.Delete(t.Context(), configMap, "u-1"); err != nil {
		t.Fatal(err)
	}
	if len(*requests) != 1 || (*requests)[0].Method != "DELETE" || (*requests)[0].Path != "/api/v1/namespaces/shop/configmaps/web" || (*requests)[0].Query != "" {
		t.Fatalf("requests: %v", *requests)
	}
	var options metav1.DeleteOptions
	if err := json.Unmarshal([]byte((*requests)[0].Body), &options); err != nil {
		t.Fatal(err)
	}
	want := metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     metav1.NewUIDPreconditions("u-1"),
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	}
	if diff := cmp.Diff(want, options); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// The object itself comes back from a deletion that has to wait for a finalizer.
func TestADeletionThatGoesOnIsNoError(t *testing.T) {
	writer, _ := serve(t, http.StatusOK, webConfig)
	if err := writer.Delete(t.Context(), configMap, "u-1"); err != nil {
		t.Error(err)
	}
}

func TestErrorsAreThoseOfTheAPIServer(t *testing.T) {
	groupResource := configMap.Resource.GroupResource()
	terminating := apierrors.NewForbidden(groupResource, "web", errors.New("namespace shop is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"})
	for name, test := range map[string]struct {
		is     func(error) bool
		answer *apierrors.StatusError
	}{
		"not found":      {apierrors.IsNotFound, apierrors.NewNotFound(groupResource, "web")},
		"conflict":       {apierrors.IsConflict, apierrors.NewConflict(groupResource, "web", errors.New("it was changed"))},
		"already exists": {apierrors.IsAlreadyExists, apierrors.NewAlreadyExists(groupResource, "web")},
		"forbidden":      {apierrors.IsForbidden, apierrors.NewForbidden(groupResource, "web", errors.New("no right"))},
		"invalid":        {apierrors.IsInvalid, apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "web", nil)},
		"terminating": {func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) },
			terminating},
	} {
		t.Run(name, func(t *testing.T) {
			status := test.answer.Status()
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			body, err := json.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			writer, _ := serve(t, int(status.Code), string(body))
			_, getErr := writer.Get(t.Context(), configMap)
			_, createErr := writer.Create(t.Context(), configMap, []byte(webConfig))
			_, updateErr := writer.Update(t.Context(), configMap, []byte(webConfig))
			_, statusErr := writer.UpdateStatus(t.Context(), configMap, []byte(webConfig))
			for verb, err := range map[string]error{"get": getErr, "create": createErr, "update": updateErr, "updateStatus": statusErr, "delete": writer.Delete(t.Context(), configMap, "u-1")} {
				if !test.is(err) || err.Error() != test.answer.Error() {
					t.Errorf("%s: the error is %v", verb, err)
				}
			}
		})
	}
}

func TestAnAnswerThatIsNoObjectIsAnError(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":         "",
		"no JSON":         "<html>",
		"half an object":  webConfig[:40],
		"a list of those": "[" + webConfig + "]",
	} {
		t.Run(name, func(t *testing.T) {
			writer, _ := serve(t, http.StatusOK, answer)
			if object, err := writer.Get(t.Context(), configMap); err == nil || object != nil {
				t.Errorf("it is %v, and the error %v", object, err)
			}
		})
	}
}

// A gateway between us and the API server speaks no JSON.
func TestAnErrorOfAGatewayTellsItsStatusCode(t *testing.T) {
	writer, _ := serve(t, http.StatusBadGateway, "<html>no upstream</html>")
	_, err := writer.Update(t.Context(), configMap, []byte(webConfig))
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.Status().Code != http.StatusBadGateway {
		t.Errorf("the error is %v", err)
	}
}

func TestARequestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices that a client is gone only after it has read the body
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	writer, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for verb, do := range map[string]func() (*objectcache.RawObject, error){
		"get":    func() (*objectcache.RawObject, error) { return writer.Get(ctx, configMap) },
		"delete": func() (*objectcache.RawObject, error) { return nil, writer.Delete(ctx, configMap, "u-1") },
	} {
		if _, err := do(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the error is %v", verb, err)
		}
	}
}

func TestAConfigurationThatCannotWorkIsAnError(t *testing.T) {
	_, err := New(&rest.Config{Host: "https://example.com:port"})
	if err == nil || !strings.HasPrefix(fmt.Sprint(err), "objectwriter: making a client: ") {
		t.Errorf("the error is %v", err)
	}
}

func TestATrialOfACreationIsADryRun(t *testing.T) {
	writer, requests := serve(t, http.StatusCreated, webConfig)
	object, err := writer.TryCreate(t.Context(), configMap, []byte(`{}`))
	if err != nil || object.GetName() != "web" {
		t.Fatalf("it returns %v, %v", object, err)
	}
	if got := (*requests)[0]; got.Method != "POST" || got.Path != "/api/v1/namespaces/shop/configmaps" || got.Query != "dryRun=All" {
		t.Errorf("the request is %+v", got)
	}
}
