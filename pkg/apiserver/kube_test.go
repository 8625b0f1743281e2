// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"millwright.dev/pkg/testing/testca"
)

// kube is as much of a kube-apiserver as this server needs: reviews, one ConfigMap, one Secret, and lists of what is not there.
type kube struct {
	server *httptest.Server

	mu sync.Mutex
	// refused has the rights that this server does not have: verb resource.
	refused map[string]bool
	// forbidden are the users who may do nothing.
	forbidden map[string]bool
	// asked are the SubjectAccessReviews: user verb resource.
	asked []string
	// tokens is the number of TokenReviews.
	tokens int
	// objects are answered to GET, LIST and WATCH of a path, and a Status to every request.
	objects map[string]any
	// answers are functions that return what is at a path.
	answers map[string]func() any
	// watchers of a path.
	watchers map[string][]chan metav1.WatchEvent
	// held is a path whose LIST and WATCH wait until it is closed.
	held     string
	released chan struct{}
}

const (
	configMapPath = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
	secretPath    = "/api/v1/namespaces/default/secrets/farm-operator-serving"
)

func newKube(t *testing.T, front *testca.CA) *kube {
	k := &kube{
		refused:   map[string]bool{},
		forbidden: map[string]bool{"system:anonymous": true},
		objects:   map[string]any{},
		watchers:  map[string][]chan metav1.WatchEvent{},
		answers:   map[string]func() any{},
		released:  make(chan struct{}),
	}
	k.objects[configMapPath] = &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: authoritiesConfigMap, ResourceVersion: "1"},
		Data: map[string]string{
			requestHeaderAuthority: string(front.PEM), clientAuthority: string(testca.New(t, "clients").PEM),
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`, "requestheader-allowed-names": `["front-proxy"]`,
		},
	}
	k.server = httptest.NewServer(k)
	t.Cleanup(func() {
		k.server.CloseClientConnections()
		k.server.Close()
	})
	return k
}

// ServeHTTP answers one request.
func (k *kube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, object := k.at(r)
	status, refuses := object.(*metav1.Status)
	switch {
	case refuses:
		answer(w, int(status.Code), status)
	case r.Method == http.MethodPost:
		k.review(w, r)
	case r.URL.Path == "/version":
		answer(w, http.StatusOK, map[string]string{"gitVersion": "v1.37.1"})
	case r.URL.Query().Get("watch") != "":
		k.watch(w, r, path)
	default:
		k.read(w, r, path, object)
	}
}

func (k *kube) review(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch review := object.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = !k.refused[asked.Verb+" "+asked.Resource]
	case *authorizationv1.SubjectAccessReview:
		review.Status.Allowed = !k.forbidden[review.Spec.User]
		if asked := review.Spec.ResourceAttributes; asked != nil {
			k.asked = append(k.asked, review.Spec.User+" "+asked.Verb+" "+asked.Resource)
		}
	case *authenticationv1.SelfSubjectReview:
		review.Status.UserInfo.Username = "system:serviceaccount:default:farm-operator"
	case *authenticationv1.TokenReview:
		k.tokens++
		review.Status.Authenticated = review.Spec.Token == "good"
		review.Status.User.Username = "token-user"
	}
	answer(w, http.StatusCreated, object)
}

// at returns what is at a path, or in a list of one that is selected by its name.
func (k *kube) at(r *http.Request) (path string, object any) {
	path = r.URL.Path
	k.mu.Lock()
	defer k.mu.Unlock()
	if answer := k.answers[path]; answer != nil {
		return path, answer()
	}
	if selector := r.URL.Query().Get("fieldSelector"); selector != "" {
		path += "/" + strings.TrimPrefix(selector, "metadata.name=")
	}
	return path, k.objects[path]
}

// answering has the function say what is at a path, at each request.
func (k *kube) answering(path string, answer func() any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[path] = answer
}

func (k *kube) read(w http.ResponseWriter, r *http.Request, path string, object any) {
	if path == r.URL.Path && object != nil {
		answer(w, http.StatusOK, object)
		return
	}
	items := []any{}
	if object != nil {
		items = append(items, object)
	}
	// The clients know of which type a list is.
	answer(w, http.StatusOK, map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": items})
}

// watch knows no initial events: clients list instead.
func (k *kube) watch(w http.ResponseWriter, r *http.Request, path string) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		if path == k.held {
			<-k.released
		}
		answer(w, http.StatusUnprocessableEntity, metav1.Status{Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid})
		return
	}
	events := make(chan metav1.WatchEvent, 10)
	k.mu.Lock()
	k.watchers[path] = append(k.watchers[path], events)
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case event := <-events:
			_ = json.NewEncoder(w).Encode(event)
		case <-r.Context().Done():
			return
		}
	}
}

// set what is at a path, and tell its watchers; nil deletes it.
func (k *kube) set(path string, object any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kind, shown := "MODIFIED", object
	switch {
	case k.objects[path] == nil:
		kind = "ADDED"
	case object == nil:
		kind, shown = "DELETED", k.objects[path]
	}
	if object == nil {
		delete(k.objects, path)
	} else {
		k.objects[path] = object
	}
	event := metav1.WatchEvent{Type: kind}
	event.Object.Raw, _ = json.Marshal(shown)
	for _, watcher := range k.watchers[path] {
		watcher <- event
	}
}

// isWatched reports whether there is a watch of a path.
func (k *kube) isWatched(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.watchers[path]) > 0
}

func (k *kube) reviews() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.asked)
}

func (k *kube) tokenReviews() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tokens
}

func (k *kube) forbid(user string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forbidden[user] = true
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}
