// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testParams has something in every root field that a StatefulSet's action can have.
func testParams() Params {
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "creds", Namespace: "db"}, Data: map[string][]byte{"password": []byte("hunter2")},
	}
	return Params{
		StatefulSet: &Workload{
			Name: "pg", Namespace: "db", Pods: []string{"pg-1", "pg-0"}, Containers: [][]string{{"main", "side"}, {"main"}},
			PersistentVolumeClaims: map[string]map[string]string{"pg-0": {"data-pg-0": "/data"}},
		},
		Namespace:   &Reference{Name: "db", Namespace: "db"},
		Object:      map[string]any{"metadata": map[string]any{"name": "pg"}, "spec": map[string]any{"replicas": int64(2)}},
		ArtifactsIn: map[string]Artifact{"dump": {KeyValue: map[string]string{"path": "/b/1"}, KopiaSnapshot: "snap"}},
		ConfigMaps:  map[string]corev1.ConfigMap{"conf": {Data: map[string]string{"bucket": "bkt"}}},
		Secrets:     map[string]corev1.Secret{"creds": secret},
		Profile: &Profile{
			Location: Location{
				Type: "s3Compliant", Bucket: "bkt", Endpoint: "https://s3.example.test:9000", Prefix: "pre/fix", Region: "eu-1",
			},
			Credential:    Credential{Type: "keyPair", KeyPair: &KeyPair{ID: "AKIDEXAMPLE", Secret: "sec<ret>&1"}},
			SkipSSLVerify: true,
		},
		Options: map[string]string{"tag": "v1"},
		Time:    "2026-08-01T02:03:04.000000005Z",
		Phases: map[string]Phase{
			"dump": {
				Output:  map[string]any{"size": "12", "nested": map[string]any{"a": "b"}},
				Secrets: map[string]corev1.Secret{"creds": secret}, ConfigMaps: map[string]corev1.ConfigMap{},
			},
			"a-b": {Output: map[string]any{"k": "v"}},
		},
		DeferPhase:     Phase{Output: map[string]any{"done": "yes"}},
		PodOverride:    map[string]any{"hostNetwork": true},
		PodAnnotations: map[string]string{"note": "n"},
		PodLabels:      map[string]string{"app": "l"},
	}
}

func renderer(t testing.TB, params Params) *Renderer {
	t.Helper()
	r, err := NewRenderer(NewBudget(t.Context()), params)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// render renders one template as the argument a of the phase p.
func render(t testing.TB, params Params, source string) (string, error) {
	t.Helper()
	args, err := renderer(t, params).Args("p", Function{}, map[string]any{"a": source})
	if err != nil {
		return "", err
	}
	return args["a"].(string), nil
}

// wantContains fails the test where the text lacks any of the parts.
func wantContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}
