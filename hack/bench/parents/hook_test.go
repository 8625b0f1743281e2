// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parents

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millwright.dev/pkg/hook"
)

// ask the hook, and read its answer as the engine does.
func ask(t *testing.T, request string) (*hook.CompositeResponse, int) {
	t.Helper()
	recorder := httptest.NewRecorder()
	Hook(recorder, httptest.NewRequest(http.MethodPost, "/sync", strings.NewReader(request)))
	if recorder.Code != http.StatusOK {
		return nil, recorder.Code
	}
	response, err := hook.DecodeComposite(recorder.Body.Bytes(), hook.Rules{
		Types: []hook.Type{{APIVersion: "v1", Kind: "ConfigMap", Namespaced: true}}, ParentNamespace: "ns", Strict: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return response, recorder.Code
}

func TestTheHookAnswersWhatTheSpecOfTheParentSays(t *testing.T) {
	parent, err := New("ns", "web-00001", nil, Spec{Children: 3, Size: 100, Value: "before", ResyncAfterSeconds: 0.005})
	if err != nil {
		t.Fatal(err)
	}
	content, err := parent.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	response, _ := ask(t, `{"controller":{"parent":"none"},"parent":`+string(content)+`,"children":{"ConfigMap.v1":{}},"finalizing":false}`)
	if got := string(response.Status); got != `{"children":3,"value":"before"}` {
		t.Errorf("the status is %s", got)
	}
	if len(response.Children) != 3 || response.ResyncAfter.Milliseconds() != 5 {
		t.Errorf("it wants %d children and a resync after %v", len(response.Children), response.ResyncAfter)
	}
}

func TestTheHookRefusesWhatIsNoRequest(t *testing.T) {
	for _, request := range []string{``, `{}`, `{"parent":1}`, `{"controller":`} {
		if _, code := ask(t, request); code != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", request, code)
		}
	}
}
