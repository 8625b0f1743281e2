// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

// widgetSpec has the numbers of children, their value and their selector, more keys of the ConfigMaps, other children as they are, and the rules for related
// objects.
type widgetSpec struct {
	ConfigMaps int                   `json:"configMaps"`
	Secrets    int                   `json:"secrets"`
	Value      string                `json:"value"`
	Selector   *metav1.LabelSelector `json:"selector,omitempty"`
	Keys       []string              `json:"keys,omitempty"`
	Others     []any                 `json:"others,omitempty"`
	Related    []any                 `json:"related,omitempty"`
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

// widgetRequest is the request of a hook: of a CompositeController, of a DecoratorController, or of a customize hook of either.
type widgetRequest struct {
	Parent      *widget                               `json:"parent"`
	Children    map[string]map[string]json.RawMessage `json:"children"`
	Object      *widget                               `json:"object"`
	Attachments map[string]map[string]json.RawMessage `json:"attachments"`
	Related     map[string]map[string]struct {
		Data map[string]string `json:"data"`
	} `json:"related"`
	Finalizing bool `json:"finalizing"`
}

// ServeHTTP implements http.Handler.
func (h *widgetHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request widgetRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path == "/customize" {
		_ = json.NewEncoder(w).Encode(map[string]any{"relatedResources": request.Parent.Spec.Related})
		return
	}
	parent, children := request.Parent, request.Children
	if request.Object != nil {
		parent, children = request.Object, request.Attachments
	}
	// The values of the related objects follow that of the parent.
	values := []string{parent.Spec.Value}
	for _, name := range slices.Sorted(maps.Keys(request.Related["ConfigMap.v1"])) {
		values = append(values, request.Related["ConfigMap.v1"][name].Data["value"])
	}
	value := strings.Join(values, "-")
	finalized := request.Finalizing && len(children["ConfigMap.v1"]) == 0 && len(children["Secret.v1"]) == 0
	h.mu.Lock()
	h.calls[parent.Namespace] = append(h.calls[parent.Namespace], widgetCall{parent.ObjectMeta, request.Finalizing, finalized})
	h.mu.Unlock()

	answer := map[string]any{"finalized": finalized}
	desired := []any{}
	if !request.Finalizing {
		desired = parent.children(value)
	}
	if request.Object == nil {
		answer["children"] = desired
		answer["status"] = map[string]any{"configMaps": len(children["ConfigMap.v1"]), "secrets": len(children["Secret.v1"])}
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	decorated := map[string]any{decoration: value}
	answer["attachments"], answer["status"] = desired, map[string]any{"value": value}
	if request.Finalizing {
		decorated, answer["status"] = map[string]any{decoration: nil}, map[string]any{}
	}
	answer["labels"], answer["annotations"] = decorated, decorated
	_ = json.NewEncoder(w).Encode(answer)
}

// children returns the desired children of a Widget, with a value: web-0, web-1 and so on.
func (w *widget) children(value string) (children []any) {
	child := func(kind string, i int, value string) {
		metadata := map[string]any{"name": fmt.Sprintf("%s-%d", w.Name, i)}
		if w.Spec.Selector != nil {
			metadata["labels"] = w.Spec.Selector.MatchLabels
		}
		data := map[string]any{"value": value}
		if kind == "ConfigMap" {
			for _, key := range w.Spec.Keys {
				data[key] = value
			}
		}
		children = append(children, map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data})
	}
	for i := range w.Spec.ConfigMaps {
		child("ConfigMap", i, value)
	}
	for i := range w.Spec.Secrets {
		child("Secret", i, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	return append(children, w.Spec.Others...)
}

// finalizerIsKept checks that no hook is called for a parent without the finalizer, that the sync hook is not called for a parent that is
// being deleted, and that the finalizer is not removed before the hook has returned finalized.
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
