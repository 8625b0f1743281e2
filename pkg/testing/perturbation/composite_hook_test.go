// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/testing/perturbation"
)

// widget is a parent in the request of a hook.
type widget struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              widgetSpec `json:"spec"`
}

// widgetSpec has the numbers of children, their value and their selector.
type widgetSpec struct {
	ConfigMaps int                   `json:"configMaps"`
	Secrets    int                   `json:"secrets"`
	Value      string                `json:"value"`
	Selector   *metav1.LabelSelector `json:"selector,omitempty"`
}

// widgetHook answers for the Widgets of all runs. Its answers depend only on the request.
type widgetHook struct {
	*httptest.Server

	mu    sync.Mutex
	calls map[string][]widgetCall // by namespace
}

// widgetCall is the parent and the outcome of a call of a hook.
type widgetCall struct {
	parent                metav1.ObjectMeta
	finalizing, finalized bool
}

func startWidgetHook(t *testing.T) *widgetHook {
	h := &widgetHook{calls: map[string][]widgetCall{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *widgetHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Parent     widget                                `json:"parent"`
		Children   map[string]map[string]json.RawMessage `json:"children"`
		Finalizing bool                                  `json:"finalizing"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	observed := map[string]any{"configMaps": len(request.Children["ConfigMap.v1"]), "secrets": len(request.Children["Secret.v1"])}
	finalized := request.Finalizing && observed["configMaps"] == 0 && observed["secrets"] == 0
	children := []any{}
	if !request.Finalizing {
		children = request.Parent.children()
	}
	h.mu.Lock()
	h.calls[request.Parent.Namespace] = append(h.calls[request.Parent.Namespace], widgetCall{request.Parent.ObjectMeta, request.Finalizing, finalized})
	h.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"status": observed, "children": children, "finalized": finalized})
}

// children returns the desired children of a Widget: web-0, web-1 and so on.
func (w *widget) children() (children []any) {
	child := func(kind string, i int, value string) {
		metadata := map[string]any{"name": fmt.Sprintf("%s-%d", w.Name, i)}
		if w.Spec.Selector != nil {
			metadata["labels"] = w.Spec.Selector.MatchLabels
		}
		children = append(children, map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": map[string]any{"value": value}})
	}
	for i := range w.Spec.ConfigMaps {
		child("ConfigMap", i, w.Spec.Value)
	}
	for i := range w.Spec.Secrets {
		child("Secret", i, base64.StdEncoding.EncodeToString([]byte(w.Spec.Value)))
	}
	return children
}

// finalizerIsKept checks that no hook is called for a parent without the finalizer, that the sync hook is not called for a parent that is
// being deleted, and that the finalizer stays until the hook has returned finalized.
func (h *widgetHook) finalizerIsKept(history []perturbation.Change) error {
	var errs []error
	had, checked := map[types.UID]bool{}, map[types.UID]bool{}
	for _, change := range history {
		if change.Resource != widgets {
			continue
		}
		uid, has := change.Object.GetUID(), hasFinalizer(change.Object)
		if !had[uid] && !has {
			continue
		}
		if had[uid] && (!has || change.Deleted) && !checked[uid] {
			checked[uid] = true
			if !slices.ContainsFunc(h.callsIn(change.Object.GetNamespace()), func(call widgetCall) bool { return call.parent.UID == uid && call.finalized }) {
				errs = append(errs, fmt.Errorf("at version %s the finalizer was removed before the hook returned finalized", change.Object.GetResourceVersion()))
			}
		}
		had[uid] = has
	}
	for _, call := range h.callsIn(namespaceOf(history)) {
		switch {
		case !hasFinalizer(&call.parent):
			errs = append(errs, fmt.Errorf("the hook was called for version %s of the parent, which has no finalizer", call.parent.ResourceVersion))
		case call.parent.DeletionTimestamp != nil && !call.finalizing:
			errs = append(errs, fmt.Errorf("the sync hook was called for version %s of the parent, which is being deleted", call.parent.ResourceVersion))
		}
	}
	return errors.Join(errs...)
}

func (h *widgetHook) callsIn(namespace string) []widgetCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls[namespace])
}

func namespaceOf(history []perturbation.Change) string {
	for _, change := range history {
		if namespace := change.Object.GetNamespace(); namespace != "" {
			return namespace
		}
	}
	return ""
}
