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
		object  string // without what all have in common
		refusal string // empty: it is accepted
	}{
		"two lines are enough":            {`{metadata: {name: a}, spec: {image: nginx}}`, ""},
		"a name of 241 characters":        {`{metadata: {name: ` + strings.Repeat("n", 241) + `}, spec: {image: nginx}}`, ""},
		"a name of 242 characters":        {`{metadata: {name: ` + strings.Repeat("n", 242) + `}, spec: {image: nginx}}`, "metadata.name must be at most 241 characters"},
		"no spec":                         {`{metadata: {name: b}}`, "spec: Required value"},
		"no image":                        {`{metadata: {name: b}, spec: {}}`, "spec.image: Required value"},
		"an empty image":                  {`{metadata: {name: b}, spec: {image: ""}}`, "should be at least 1 chars long"},
		"a template without containers":   {`{metadata: {name: c}, spec: {image: nginx, template: {spec: {nodeSelector: {disk: ssd}}}}}`, ""},
		"an empty template":               {`{metadata: {name: d}, spec: {image: nginx, template: {}}}`, ""},
		"restartPolicy Always":            {`{metadata: {name: e}, spec: {image: nginx, template: {spec: {restartPolicy: Always}}}}`, ""},
		"restartPolicy Never":             {`{metadata: {name: f}, spec: {image: nginx, template: {spec: {restartPolicy: Never}}}}`, "restartPolicy must be OnFailure or Always"},
		"a container without a name":      {`{metadata: {name: f}, spec: {image: nginx, template: {spec: {containers: [{image: x}]}}}}`, "name: Required value"},
		"a back-off of zero":              {`{metadata: {name: f}, spec: {image: nginx, backoff: {initialSeconds: 0}}}`, "should be greater than or equal to 1"},
		"a back-off that is not a number": {`{metadata: {name: f}, spec: {image: nginx, backoff: {maxSeconds: long}}}`, "must be of type integer"},
		"only a part of the back-off":     {`{metadata: {name: g}, spec: {image: nginx, backoff: {maxSeconds: 20}}}`, ""},
		"a field that does not exist":     {`{metadata: {name: f}, spec: {image: nginx, imagePullPolice: Always}}`, `unknown field "spec.imagePullPolice"`},
		"labels and annotations of a Pod": {`{metadata: {name: h}, spec: {image: nginx, template: {metadata: {labels: {app: x}, annotations: {y: z}}}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(test.object), &object.Object); err != nil {
				t.Fatal(err)
			}
			object.SetAPIVersion(v1alpha1.GroupVersion.String())
			object.SetKind("ImmortalContainer")
			_, err := containers.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
			switch {
			case test.refusal == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.refusal != "" && err == nil:
				t.Error("accepted")
			case test.refusal != "" && !(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
				t.Errorf("an error of another kind: %v", err)
			case test.refusal != "" && !strings.Contains(err.Error(), test.refusal):
				t.Errorf("the refusal does not say %q: %v", test.refusal, err)
			}
		})
	}
}

func TestImmortalContainerCRDDefaults(t *testing.T) {
	e := newEnv(t, testcluster.Shared(t))
	e.create(immortal("web", backoff(0, 20)))
	if got, want := e.get("web").Spec.Backoff, (v1alpha1.Backoff{InitialSeconds: 10, MaxSeconds: 20, ResetAfterSeconds: 600}); got != want {
		t.Errorf("the back-off is %+v, not %+v", got, want)
	}
}
