package e2e

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func testAuditLog(t *testing.T, c *cluster, path string) {
	c.kubectl(t, "create", "configmap", "audited")
	forbidden := exec.Command(binary, "kubectl", "--kubeconfig", c.dir.AdminKubeconfig(), "delete", "configmap", "audited", "--as", "stranger")
	if out, err := forbidden.CombinedOutput(); err == nil || !strings.Contains(string(out), "Forbidden") {
		t.Fatalf("got %v:\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range [][]string{
		{`"verb":"create"`, `"username":"admin"`, `"code":201`, `"authorization.k8s.io/decision":"allow"`},
		{`"verb":"delete"`, `"username":"stranger"`, `"code":403`, `"authorization.k8s.io/decision":"forbid"`, `"name":"audited"`},
	} {
		if !slices.ContainsFunc(strings.Split(string(content), "\n"), func(line string) bool {
			return !slices.ContainsFunc(append(request, `"resource":"configmaps"`), func(part string) bool { return !strings.Contains(line, part) })
		}) {
			t.Errorf("no line has all of %s:\n%s", request, content)
		}
	}
}
