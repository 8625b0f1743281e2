// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/testing/testcluster"
)

func TestImmortalContainerCRDValidation(t *testing.T) {
	cluster := testcluster.Shared(t)
	namespace := cluster.Namespace(t)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	containers := client.Resource(v1alpha1.Resource("immortalcontainers").WithVersion(v1alpha1.GroupVersion.Version)).Namespace(namespace)
	for name, test := range map[string]struct {
		object  string // without apiVersion and kind
		refusal string // empty if it is accepted
	}{
		"minimal":                     {`{metadata: {name: a}, spec: {image: nginx}}`, ""},
		"name of 241 characters":      {`{metadata: {name: ` + strings.Repeat("n", 241) + `}, spec: {image: nginx}}`, ""},
		"name of 242 characters":      {`{metadata: {name: ` + strings.Repeat("n", 242) + `}, spec: {image: nginx}}`, "metadata.name must be at most 241 characters"},
		"no spec":                     {`{metadata: {name: b}}`, "spec: Required value"},
		"no image":                    {`{metadata: {name: b}, spec: {}}`, "spec.image: Required value"},
		"empty image":                 {`{metadata: {name: b}, spec: {image: ""}}`, "should be at least 1 chars long"},
		"template without containers": {`{metadata: {name: c}, spec: {image: nginx, template: {spec: {nodeSelector: {disk: ssd}}}}}`, ""},
		"empty template":              {`{metadata: {name: d}, spec: {image: nginx, template: {}}}`, ""},
		"restartPolicy Always":        {`{metadata: {name: e}, spec: {image: nginx, template: {spec: {restartPolicy: Always}}}}`, ""},
		"restartPolicy Never":         {`{metadata: {name: f}, spec: {image: nginx, template: {spec: {restartPolicy: Never}}}}`, "restartPolicy must be OnFailure or Always"},
		"container without name":      {`{metadata: {name: f}, spec: {image: nginx, template: {spec: {containers: [{image: x}]}}}}`, "name: Required value"},
		"backoff of zero":             {`{metadata: {name: f}, spec: {image: nginx, backoff: {initialSeconds: 0}}}`, "should be greater than or equal to 1"},
		"backoff not a number":        {`{metadata: {name: f}, spec: {image: nginx, backoff: {maxSeconds: long}}}`, "must be of type integer"},
		"partial backoff":             {`{metadata: {name: g}, spec: {image: nginx, backoff: {maxSeconds: 20}}}`, ""},
		"unknown field":               {`{metadata: {name: f}, spec: {image: nginx, imagePullPolice: Always}}`, `unknown field "spec.imagePullPolice"`},
		"labels and annotations":      {`{metadata: {name: h}, spec: {image: nginx, template: {metadata: {labels: {app: x}, annotations: {y: z}}}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(test.object), &object.Object); err != nil {
				t.Fatal(err)
			}
			object.SetAPIVersion(v1alpha1.GroupVersion.String())
			object.SetKind("ImmortalContainer")
			options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
			_, err := containers.Create(t.Context(), object, options)
			switch {
			case test.refusal == "" && err != nil:
				t.Errorf("create: %v", err)
			case test.refusal != "" && err == nil:
				t.Errorf("create: got no error, want %q", test.refusal)
			case test.refusal != "" && !(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
				t.Errorf("create: got %v, want invalid or a bad request", err)
			case test.refusal != "" && !strings.Contains(err.Error(), test.refusal):
				t.Errorf("create: got %v, want %q in it", err, test.refusal)
			}
		})
	}
}

func TestImmortalContainerCRDDefaults(t *testing.T) {
	e := newEnv(t, testcluster.Shared(t))
	e.create(immortal("web", backoff(0, 20)))
	if got, want := e.get("web").Spec.Backoff, (v1alpha1.Backoff{InitialSeconds: 10, MaxSeconds: 20, ResetAfterSeconds: 600}); got != want {
		t.Errorf("backoff: got %+v, want %+v", got, want)
	}
}
