// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// firstSample returns the files of the sample for simulated nodes, in the namespace of the test.
func (e *actionsEnv) firstSample() (folder string) {
	e.Helper()
	files, err := filepath.Glob("../../../manifests/samples/actionset/first/*.yaml")
	if err != nil || len(files) != 3 {
		e.Fatalf("want three files of the sample, got %v (%v)", files, err)
	}
	folder = e.TempDir()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			e.Fatal(err)
		}
		text := strings.ReplaceAll(string(content), "namespace: default", "namespace: "+e.namespace)
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), []byte(text), 0o600); err != nil {
			e.Fatal(err)
		}
	}
	return folder
}

func TestActionSetSampleCompletesOnASimulatedNode(t *testing.T) {
	e := newActionsEnv(t)
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"get"}})
	e.run(nil)
	e.cluster.Kubectl(t, "apply", "--namespace", e.namespace, "-f", e.firstSample())
	set := e.wantEnd("bookshop-monday", "complete ready=complete close=complete compute=complete record=complete defer open=complete; 100%")
	want := map[string]string{"orders": "42", "total": "504", "record": "bookshop-monday"}
	if diff := cmp.Diff(want, set.Status.Actions[0].Artifacts["sales"].KeyValue); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"orders": "42", "total": "504"}, e.configMap("bookshop-monday")); diff != "" {
		t.Errorf("the ConfigMap of the KubeOps phase (-want +got):\n%s", diff)
	}
}

func TestKubeTaskFailsWithWhatASimulatedPodPrints(t *testing.T) {
	e := newActionsEnv(t)
	e.blueprint("b", `
go:
  phases:
  - func: KubeTask
    name: fails
    args:
      namespace: $NS
      image: example.com/image
      command: [go]
      podAnnotations:
        simulated.millwright.dev/log: no space left
        simulated.millwright.dev/exit-code: "3"
`)
	e.run(nil)
	e.actionSet("s", "{name: go, blueprint: b, object: {kind: Namespace, name: $NS, namespace: $NS}}")
	if set := e.awaitEnd("s"); set.Status.State != "failed" || !strings.Contains(set.Status.Error.Message, "no space left") {
		t.Errorf("got %s", summary(set))
	}
}
