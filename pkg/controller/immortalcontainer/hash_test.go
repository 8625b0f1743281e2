// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// These hashes are on the Pods of running clusters. Where one changes, an upgrade of the operator replaces every Pod of
// that kind: never change a value here, change the code back. A new case may be added at any time.
func TestTheHashOfASpecNeverChanges(t *testing.T) {
	for file, want := range map[string]string{
		"minimal.yaml": "6f6b2e4b52f87e8d",
		"rich.yaml":    "2396f7093ffe538a",
	} {
		if got := specHash(specFrom(t, file)); got != want {
			t.Errorf("the hash of %s is %s, want %s for ever", file, got, want)
		}
	}
}

func TestWhatIsAnotherSpecAndWhatIsNot(t *testing.T) {
	base := `{image: a, template: {spec: {containers: [{name: b, image: c%s}]%s}%s}}`
	in := func(container, pod, template string) string { return fmt.Sprintf(base, container, pod, template) }
	for name, tc := range map[string]struct {
		one, other string
		same       bool
	}{
		"the order of keys does not matter":    {"{image: a, suspend: false, template: {metadata: {labels: {x: y, z: w}}}}", "{template: {metadata: {labels: {z: w, x: y}}}, image: a}", true},
		"suspension is no other Pod":           {"{image: a}", "{image: a, suspend: true}", true},
		"nor is the back-off":                  {"{image: a}", "{image: a, backoff: {initialSeconds: 1, maxSeconds: 2}}", true},
		"equal quantities are equal":           {in(", resources: {limits: {cpu: 1000m, memory: 1Gi}}", "", ""), in(", resources: {limits: {cpu: 1, memory: 1024Mi}}", "", ""), true},
		"fractions of them, too":               {in(", resources: {limits: {cpu: 0.5}}", "", ""), in(", resources: {limits: {cpu: 500m}}", "", ""), true},
		"what is null is unset":                {in("", "", ""), in(", env: null", ", nodeSelector: null", ", metadata: null"), true},
		"a creation time of null is unset":     {in("", "", ""), in("", "", ", metadata: {creationTimestamp: null}"), true},
		"an empty resources is unset":          {in("", "", ""), in(", resources: {}", "", ""), true},
		"another image is another Pod":         {"{image: a}", "{image: b}", false},
		"a template that says something is":    {"{image: a}", "{image: a, template: {spec: {hostname: x}}}", false},
		"another quantity is":                  {in(", resources: {limits: {cpu: 1}}", "", ""), in(", resources: {limits: {cpu: 2}}", "", ""), false},
		"a request of nothing is":              {in("", "", ""), in(", resources: {limits: {cpu: 0}}", "", ""), false},
		"another label is":                     {in("", "", ", metadata: {labels: {x: y}}"), in("", "", ", metadata: {labels: {x: z}}"), false},
		"another order of containers is":       {"{image: a, template: {spec: {containers: [{name: b}, {name: c}]}}}", "{image: a, template: {spec: {containers: [{name: c}, {name: b}]}}}", false},
		"a number that is set to zero is":      {in("", "", ""), in("", ", terminationGracePeriodSeconds: 0", ""), false},
		"a switch that is set to false is":     {in("", "", ""), in("", ", automountServiceAccountToken: false", ""), false},
		"a volume that is an emptyDir is":      {in("", ", volumes: [{name: v}]", ""), in("", ", volumes: [{name: v, emptyDir: {}}]", ""), false},
		"a selector of all namespaces is":      {withTerm("topologyKey: k"), withTerm("topologyKey: k, namespaceSelector: {}"), false},
		"a security context that is empty is":  {in("", "", ""), in("", ", securityContext: {}", ""), false},
		"a port by number and one by name are": {in(", livenessProbe: {tcpSocket: {port: 80}}", "", ""), in(", livenessProbe: {tcpSocket: {port: '80'}}", "", ""), false},
		"the same word in another field is":    {in("", ", hostname: x", ""), in("", ", subdomain: x", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			one, other := specHash(parse(t, tc.one)), specHash(parse(t, tc.other))
			if (one == other) != tc.same {
				t.Errorf("the hashes of\n%s\n%s\nare %s and %s", tc.one, tc.other, one, other)
			}
		})
	}
}

func withTerm(term string) string {
	return "{image: a, template: {spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{" + term + "}]}}}}}"
}

func parse(t testing.TB, text string) v1alpha1.ImmortalContainerSpec {
	t.Helper()
	var spec v1alpha1.ImmortalContainerSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return spec
}

func TestHashOfAQuantity(t *testing.T) {
	specOf := func(quantity resource.Quantity) v1alpha1.ImmortalContainerSpec {
		var spec v1alpha1.ImmortalContainerSpec
		spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": quantity}}}}}}
		return spec
	}
	printed := resource.MustParse("1500m")
	_ = printed.String() // it keeps the text
	if one, other := specHash(specOf(resource.MustParse("1.5"))), specHash(specOf(printed)); one != other {
		t.Errorf("the hashes are %s and %s", one, other)
	}
}

func TestHashingChangesNothing(t *testing.T) {
	spec := specFrom(t, "rich.yaml")
	before, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	specHash(spec)
	if now, err := json.Marshal(spec); err != nil || string(now) != string(before) {
		t.Errorf("the spec was %s and is %s (%v)", before, now, err)
	}
}

// FuzzSpecHash: whatever a user may write has one hash, the same after a way through the API server, and a label's
// worth of text that the image and the template decide alone.
func FuzzSpecHash(f *testing.F) {
	for _, file := range []string{"testdata/minimal.yaml", "testdata/rich.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e3","m":"0.1Ki"}}}]}}}`))
	f.Add([]byte(`{"template":{"metadata":{"creationTimestamp":"2026-03-01T12:00:00Z","managedFields":[{"fieldsV1":{"a":{}}}]}}}`))
	shape := regexp.MustCompile("^[0-9a-f]{16}$")
	f.Fuzz(func(t *testing.T, text []byte) {
		var spec v1alpha1.ImmortalContainerSpec
		if yaml.Unmarshal(text, &spec) != nil {
			return // not a spec
		}
		hash := specHash(spec)
		if !shape.MatchString(hash) {
			t.Errorf("the hash is %q", hash)
		}
		if again := specHash(*spec.DeepCopy()); again != hash {
			t.Errorf("the hash of a copy is %s, want %s", again, hash)
		}
		spec.Suspend, spec.Backoff.MaxSeconds = !spec.Suspend, spec.Backoff.MaxSeconds+1
		if again := specHash(spec); again != hash {
			t.Errorf("with another suspend and back-off it is %s, want %s", again, hash)
		}
		spec.Image += "x"
		if again := specHash(spec); again == hash {
			t.Error("with another image it is the same")
		}
	})
}
