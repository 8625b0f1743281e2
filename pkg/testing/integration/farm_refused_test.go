// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

func TestFarmInvalidLlamas(t *testing.T) {
	e := inSharedFarm(t)
	for name, test := range map[string]struct {
		object string
		code   int32
		says   string
		fields []string
	}{
		"no weight":              {`{"spec":{"height":0.5}}`, 422, "spec.weight: Invalid value: 0", []string{"spec.weight"}},
		"no spec":                {`{}`, 422, "spec.height", []string{"spec.height", "spec.weight"}},
		"negative weight":        {`{"spec":{"weight":-1,"height":0.5}}`, 422, "spec.weight: Invalid value: -1", []string{"spec.weight"}},
		"two mistakes":           {`{"spec":{"weight":1000.5,"height":11}}`, 422, "spec.height: Invalid value: 11", []string{"spec.height", "spec.weight"}},
		"largest values":         {`{"metadata":{"name":"largest"},"spec":{"weight":1000,"height":10}}`, 201, "", nil},
		"whole numbers":          {`{"metadata":{"name":"whole"},"spec":{"weight":31,"height":1}}`, 201, "", nil},
		"capitals in name":       {`{"metadata":{"name":"Dolly"},"spec":{"weight":31,"height":1}}`, 422, "metadata.name: Invalid value", []string{"metadata.name"}},
		"name of 253 characters": {`{"metadata":{"name":"` + strings.Repeat("n", 253) + `"},"spec":{"weight":31,"height":1}}`, 201, "", nil},
		"name of 254 characters": {`{"metadata":{"name":"` + strings.Repeat("n", 254) + `"},"spec":{"weight":31,"height":1}}`,
			422, "metadata.name: Invalid value", []string{"metadata.name"}},
		"invalid label":      {`{"metadata":{"labels":{"a b":"c"}},"spec":{"weight":31,"height":1}}`, 422, "metadata.labels: Invalid value", []string{"metadata.labels"}},
		"generateName":       {`{"metadata":{"name":"","generateName":"lla-"},"spec":{"weight":31,"height":1}}`, 201, "", nil},
		"no name":            {`{"metadata":{"name":""},"spec":{"weight":31,"height":1}}`, 422, "name or generateName is required", []string{"metadata.name"}},
		"weight is a string": {`{"spec":{"weight":"heavy","height":0.5}}`, 400, "cannot unmarshal string into Go struct field LlamaSpec.spec.weight of type float64", nil},
		"unknown field":      {`{"spec":{"weight":31,"height":1,"wheels":4}}`, 400, `unknown field "spec.wheels"`, nil},
		"field twice":        {`{"spec":{"weight":31,"weight":32,"height":1}}`, 400, `duplicate field "spec.weight"`, nil},
		"another kind":       {`{"kind":"FarmPod","spec":{"weight":31,"height":1}}`, 400, "FarmPod", nil},
		"another namespace":  {`{"metadata":{"name":"a","namespace":"default"},"spec":{"weight":31,"height":1}}`, 400, "the namespace of the provided object does not match", nil},
		"owner without UID": {`{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x"}]},"spec":{"weight":31,"height":1}}`,
			422, "uid: Required value", []string{"metadata.ownerReferences[0].uid"}},
	} {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"apiVersion": "farm.example.com/v1alpha", "kind": "Llama", "metadata": map[string]any{"name": "dolly"}}
			var given map[string]any
			if err := json.Unmarshal([]byte(test.object), &given); err != nil {
				t.Fatal(err)
			}
			if metadata, ok := given["metadata"].(map[string]any); ok && metadata["name"] == nil {
				metadata["name"] = "dolly"
			}
			for key, value := range given {
				object[key] = value
			}
			body, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(name, "twice") { // a map cannot have a key twice
				body = []byte(`{"apiVersion":"farm.example.com/v1alpha","kind":"Llama","metadata":{"name":"dolly"},` + test.object[1:])
			}
			answer := e.client.FarmV1alpha().RESTClient().Post().Namespace(e.namespace).Resource("llamas").Param("fieldValidation", "Strict").
				SetHeader("Content-Type", "application/json").Body(body).Do(t.Context())
			var code int
			answer.StatusCode(&code)
			err = answer.Error()
			if int32(code) != test.code || (err == nil) != (test.code == 201) {
				t.Fatalf("got %d: %v, want %d", code, err, test.code)
			}
			if err == nil {
				return
			}
			status, ok := err.(apierrors.APIStatus)
			if !ok || status.Status().Code != test.code || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got error %v, want %q in it", err, test.says)
			}
			var fields []string
			if ok && status.Status().Details != nil {
				for _, cause := range status.Status().Details.Causes {
					if cause.Field != "" {
						fields = append(fields, cause.Field)
					}
				}
			}
			slices.Sort(fields)
			if diff := cmp.Diff(test.fields, slices.Compact(fields)); diff != "" && test.code == 422 {
				t.Errorf("fields of the causes (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

func TestFarmDryRun(t *testing.T) {
	e := inSharedFarm(t)
	before := e.createLlama(newLlama("dolly", labelled("herd", "north")))
	file := e.file(strings.Replace(dolly, "31.4", "40", 1))
	for _, args := range [][]string{
		{"create", "-f", e.file(strings.Replace(dolly, "dolly", "emma", 1))},
		{"apply", "-f", file},
		{"apply", "--server-side", "--field-manager=x", "--force-conflicts", "-f", file},
		{"apply", "--server-side", "-f", e.file(strings.Replace(dolly, "dolly", "emma", 1))},
		{"patch", "llama", "dolly", "--type=json", "-p", `[{"op":"replace","path":"/spec/weight","value":40}]`},
		{"patch", "llama", "dolly", "--type=merge", "-p", `{"spec":{"weight":40}}`},
		{"patch", "llama", "dolly", "--type=strategic", "-p", `{"spec":{"weight":40}}`},
		{"replace", "-f", file},
		{"label", "llama", "dolly", "coat=white"},
		{"annotate", "llama", "dolly", "coat=white"},
		{"delete", "llama", "dolly"},
		{"delete", "llama", "dolly", "--cascade=foreground"},
	} {
		output := e.kubectl(append(args, "--dry-run=server")...)
		if !strings.Contains(output, "(server dry run)") && args[0] != "patch" { // patch does not print it
			t.Errorf("kubectl %s: got %s, want a server dry run", strings.Join(args, " "), output)
		}
	}
	invalid := e.kubectlFails("patch", "llama", "dolly", "--type=merge", "-p", `{"spec":{"weight":-1}}`, "--dry-run=server")
	if !strings.Contains(invalid, "spec.weight: Invalid value") {
		t.Errorf("dry run of an invalid patch: got %s", invalid)
	}
	exists := e.kubectlFails("create", "-f", e.file(dolly), "--dry-run=server")
	if !strings.Contains(exists, "(AlreadyExists)") || !strings.Contains(exists, `llamas.farm.example.com "dolly" already exists`) {
		t.Errorf("dry run of a create of an existing Llama: got %s", exists)
	}
	all := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if err := e.llamas.DeleteCollection(t.Context(), all, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	tried, err := e.llamas.Update(t.Context(), newLlama("dolly", func(llama *farmv1alpha.Llama) {
		llama.ResourceVersion, llama.Spec.Weight = before.ResourceVersion, 50
	}), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || tried.Spec.Weight != 50 || tried.Generation != 2 {
		t.Errorf("dry run of an update: got %+v, %v, want weight 50 and generation 2", tried, err)
	}
	list, err := e.llamas.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].ResourceVersion != before.ResourceVersion {
		t.Errorf("after dry runs: got Llamas %+v, want dolly unchanged", list.Items)
	}
	records, err := e.client.FarmStorageV1().LlamaRecords(e.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(records.Items) != 1 || records.Items[0].ResourceVersion != before.ResourceVersion {
		t.Errorf("after dry runs: got records %+v, want one unchanged", records.Items)
	}
}

func TestFarmUnknownPaths(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	base := "/apis/farm.example.com/v1alpha/namespaces/" + e.namespace
	client := e.client.FarmV1alpha().RESTClient()
	for name, test := range map[string]struct {
		err    error
		code   int32
		reason metav1.StatusReason
	}{
		"a subresource":   {client.Get().AbsPath(base + "/llamas/dolly/status").Do(t.Context()).Error(), 404, metav1.StatusReasonNotFound},
		"a resource":      {client.Get().AbsPath(base + "/alpacas").Do(t.Context()).Error(), 404, metav1.StatusReasonNotFound},
		"a Llama":         {client.Get().AbsPath(base + "/llamas/emma").Do(t.Context()).Error(), 404, metav1.StatusReasonNotFound},
		"POST to a Llama": {client.Post().AbsPath(base + "/llamas/dolly").Body([]byte("{}")).Do(t.Context()).Error(), 405, metav1.StatusReasonMethodNotAllowed},
		"body not JSON": {client.Post().AbsPath(base+"/llamas").SetHeader("Content-Type", "application/json").Body([]byte("{")).Do(t.Context()).Error(),
			400, metav1.StatusReasonBadRequest},
		"body of unknown type": {client.Post().AbsPath(base+"/llamas").SetHeader("Content-Type", "text/csv").Body([]byte("a,b")).Do(t.Context()).Error(),
			415, metav1.StatusReasonUnsupportedMediaType},
		"patch of unknown type": {client.Patch("application/x-patch").AbsPath(base + "/llamas/dolly").Body([]byte("{}")).Do(t.Context()).Error(),
			415, metav1.StatusReasonUnsupportedMediaType},
		"unknown Accept": {client.Get().AbsPath(base+"/llamas/dolly").SetHeader("Accept", "text/csv").Do(t.Context()).Error(),
			406, metav1.StatusReasonNotAcceptable},
		"Accept protobuf": {client.Get().AbsPath(base+"/llamas/dolly").SetHeader("Accept", "application/vnd.kubernetes.protobuf").Do(t.Context()).Error(),
			406, metav1.StatusReasonNotAcceptable},
		"Accept protobuf or JSON": {client.Get().AbsPath(base+"/llamas").
			SetHeader("Accept", "application/vnd.kubernetes.protobuf,application/json").Do(t.Context()).Error(), 0, ""},
		"limit not a number": {client.Get().AbsPath(base+"/llamas").Param("limit", "many").Do(t.Context()).Error(), 400, metav1.StatusReasonBadRequest},
	} {
		var status metav1.Status
		if answer, ok := test.err.(apierrors.APIStatus); ok {
			status = answer.Status()
		}
		if (test.err == nil) != (test.code == 0) || status.Code != test.code || status.Reason != test.reason {
			t.Errorf("%s: got %d %s: %v, want %d %s", name, status.Code, status.Reason, test.err, test.code, test.reason)
		}
		if test.code == http.StatusNotFound && status.Kind != "" && status.Kind != "Status" {
			t.Errorf("%s: got a %s, want a Status", name, status.Kind)
		}
	}
}
