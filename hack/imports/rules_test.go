// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func TestEveryRuleBites(t *testing.T) {
	tested := map[string]bool{}
	for _, test := range []struct{ file, imported, why string }{
		{"pkg/webhook/server.go", "k8s.io/kubernetes/pkg/apis/core", "not made to be imported"},
		{"pkg/webhook/server_test.go", "k8s.io/kubernetes", "not made to be imported"},
		{"pkg/apis/apps/v1/types.go", module + "/pkg/controller", "types import only types"},
		{"pkg/apis/apps/v1/types_test.go", module + "/pkg/generated/clientset/versioned", "types import only types"},
		{"pkg/generated/listers/apps/v1/helloapp.go", module + "/pkg/hook", "stands on the types alone"},
		{"pkg/hook/client.go", module + "/pkg/controller", "a domain knows nothing"},
		{"pkg/hook/client.go", module + "/pkg/controller/helloapp", "a domain knows nothing"},
		{"pkg/hook/client.go", module + "/pkg/manager", "a domain knows nothing"},
		{"pkg/hook/client.go", module + "/pkg/webhook", "a domain knows nothing"},
		{"pkg/controller/loop.go", module + "/pkg/controller/helloapp", "knows none of them"},
		{"pkg/controller/loop.go", module + "/pkg/manager", "knows none of them"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/controller/machine", "another kind's controller"},
		{"pkg/controller/helloapp/integration/helloapp_test.go", module + "/pkg/controller/machine/switches", "another kind's controller"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/manager", "does not know who runs it"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/apiserver", "does not know who runs it"},
		{"pkg/webhook/server.go", module + "/pkg/controller/helloapp", "do not know the controllers"},
		{"pkg/registry/farm/llama/storage.go", module + "/pkg/manager", "do not know the controllers"},
		{"pkg/manager/manager.go", module + "/pkg/controller/helloapp", "through its table alone"},
		{"pkg/manager/controllers.go", module + "/pkg/webhook", "beside the servers"},
		{"cmd/millwright/controllers.go", module + "/pkg/controller/helloapp", "only reads flags"},
		{"cmd/millwright/apiserver.go", module + "/pkg/registry/farm/llama", "only reads flags"},
		{"pkg/manager/manager.go", module + "/pkg/testing/testcluster", "made for tests"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/testing/perturbation", "made for tests"},
		{"cmd/millwright/main.go", module + "/hack/imports", "hack is for development"},
		{"pkg/controller/helloapp/plan.go", "k8s.io/client-go/kubernetes", "a pure file"},
		{"pkg/controller/helloapp/plan.go", "k8s.io/client-go/kubernetes/typed/core/v1", "a pure file"},
		{"pkg/controller/helloapp/plan.go", "k8s.io/client-go/listers/core/v1", "a pure file"},
		{"pkg/controller/helloapp/desired.go", "k8s.io/client-go/informers", "a pure file"},
		{"pkg/controller/helloapp/desired.go", "k8s.io/client-go/rest", "a pure file"},
		{"pkg/controller/helloapp/status.go", "net/http", "a pure file"},
		{"pkg/controller/helloapp/status.go", "os", "a pure file"},
		{"pkg/controller/helloapp/status.go", "context", "a pure file"},
		{"pkg/controller/helloapp/status.go", "math/rand/v2", "a pure file"},
		{"pkg/controller/helloapp/plan.go", module + "/pkg/generated/clientset/versioned", "a pure file"},
		{"pkg/controller/helloapp/plan.go", module + "/pkg/generated/listers/apps/v1", "a pure file"},
		{"pkg/controller/helloapp/plan.go", module + "/pkg/generated/informers/externalversions", "a pure file"},
	} {
		broken := checkTree(t, test.file, fmt.Sprintf("package p\n\nimport _ %q\n", test.imported))
		want := fmt.Sprintf("%s:3: imports %s: ", test.file, test.imported)
		if len(broken) != 1 || !strings.HasPrefix(broken[0], want) || !strings.Contains(broken[0], test.why) {
			t.Errorf("%s imports %s: got %q, want one line that starts with %q and says %q", test.file, test.imported, broken, want, test.why)
			continue
		}
		for _, rule := range rules {
			tested[rule.why] = tested[rule.why] || strings.HasSuffix(broken[0], ": "+rule.why)
		}
	}
	for _, rule := range rules {
		if !tested[rule.why] {
			t.Errorf("no case above breaks the rule %q", rule.why)
		}
	}
}

func TestImportsDownAreAllowed(t *testing.T) {
	for _, test := range []struct{ file, imported string }{
		{"pkg/apis/apps/v1/types.go", module + "/pkg/apis/apps"},
		{"pkg/generated/listers/apps/v1/helloapp.go", module + "/pkg/apis/apps/v1"},
		{"pkg/hook/client.go", module + "/pkg/blueprint"},
		{"pkg/hook/client.go", "context"},
		{"pkg/controller/loop.go", module + "/pkg/hook"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/controller"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/controller/helloapp/rollout"},
		{"pkg/controller/helloapp/controller.go", "k8s.io/client-go/kubernetes"},
		{"pkg/controller/helloapp/plan.go", module + "/pkg/generated/applyconfiguration/apps/v1"},
		{"pkg/controller/helloapp/desired.go", "k8s.io/client-go/applyconfigurations/core/v1"},
		{"pkg/controller/helloapp/plan_test.go", "k8s.io/client-go/kubernetes/fake"},
		{"pkg/controller/helloapp/controller_test.go", module + "/pkg/testing/testcluster"},
		{"pkg/testing/perturbation/harness.go", module + "/pkg/testing/testcluster"},
		{"pkg/testing/perturbation/helloapp_test.go", module + "/pkg/controller/helloapp"},
		{"pkg/controller/helloapp/perturbation_test.go", module + "/pkg/testing/perturbation"},
		{"pkg/manager/controllers.go", module + "/pkg/controller/helloapp"},
		{"pkg/manager/manager_test.go", module + "/pkg/controller/helloapp"},
		{"cmd/millwright/controllers.go", module + "/pkg/manager"},
		{"hack/models-schema/main.go", module + "/pkg/generated/openapi"},
		{"pkg/webhook/server.go", "k8s.io/kubernetes-example"},
	} {
		if broken := checkTree(t, test.file, fmt.Sprintf("package p\n\nimport _ %q\n", test.imported)); len(broken) > 0 {
			t.Errorf("want no complaint, got %q", broken)
		}
	}
}

func TestAPureFileDoesNotReadTheClock(t *testing.T) {
	const source = "package p\n\nimport \"time\"\n\nfunc f(now time.Time) bool { return %s }\n"
	for call, allowed := range map[string]bool{
		"time.Now().After(now)":        false,
		"time.Since(now) > 0":          false,
		"time.Until(now) > 0":          false,
		"now.After(time.Time{})":       true,
		"now.Sub(now) > 5*time.Second": true,
	} {
		broken := checkTree(t, "pkg/controller/helloapp/plan.go", fmt.Sprintf(source, call))
		if allowed != (len(broken) == 0) {
			t.Errorf("%s: allowed is %v, got %q", call, allowed, broken)
		}
		if broken := checkTree(t, "pkg/controller/helloapp/controller.go", fmt.Sprintf(source, call)); len(broken) > 0 {
			t.Errorf("%s: want no complaint outside pure files, got %q", call, broken)
		}
	}
}

func TestOtherModulesAndWhatGoIgnoresAreSkipped(t *testing.T) {
	const source = "package p\n\nimport _ \"k8s.io/kubernetes\"\n"
	for _, name := range []string{"hack/cluster/main.go", "hack/cluster/ports/ports.go", "pkg/hook/testdata/p.go", ".local/p.go", "_old/p.go"} {
		if broken := checkTree(t, name, source); len(broken) > 0 {
			t.Errorf("want no complaint, got %q", broken)
		}
	}
}

func checkTree(t *testing.T, name, source string) []string {
	t.Helper()
	broken, err := check(fstest.MapFS{
		"go.mod":              {Data: []byte("module " + module + "\n")},
		"hack/cluster/go.mod": {Data: []byte("module " + module + "/hack/cluster\n")},
		name:                  {Data: []byte(source)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return broken
}
