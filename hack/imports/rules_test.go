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
		{"pkg/controller/engine/parent/sync.go", module + "/pkg/controller/composite", "nothing of the kinds that use it"},
		{"pkg/controller/loop.go", module + "/pkg/controller/engine", "nothing of the engine"},
		{"pkg/controller/engine/sync.go", module + "/pkg/manager", "does not know who runs it"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/manager", "does not know who runs it"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/apiserver", "does not know who runs it"},
		{"pkg/webhook/server.go", module + "/pkg/controller/helloapp", "do not know the controllers"},
		{"pkg/registry/farm/llama/storage.go", module + "/pkg/manager", "do not know the controllers"},
		{"pkg/manager/manager.go", module + "/pkg/controller/helloapp", "through its table alone"},
		{"pkg/manager/controllers.go", module + "/pkg/webhook", "next to the servers"},
		{"cmd/millwright/controllers.go", module + "/pkg/controller/helloapp", "only reads flags"},
		{"cmd/millwright/apiserver.go", module + "/pkg/registry/farm/llama", "only reads flags"},
		{"pkg/manager/manager.go", module + "/pkg/testing/testcluster", "made for tests"},
		{"pkg/controller/helloapp/controller.go", module + "/pkg/testing/perturbation", "made for tests"},
		{"cmd/millwright/main.go", module + "/hack/imports", "hack is for development"},
		{pureFile, "k8s.io/client-go/kubernetes", "a pure file"},
		{pureFile, "k8s.io/client-go/kubernetes/typed/core/v1", "a pure file"},
		{pureFile, "k8s.io/client-go/listers/core/v1", "a pure file"},
		{pureFile, "k8s.io/client-go/informers", "a pure file"},
		{pureFile, "k8s.io/client-go/rest", "a pure file"},
		{pureFile, "net/http", "a pure file"},
		{pureFile, "os", "a pure file"},
		{pureFile, "context", "a pure file"},
		{pureFile, "math/rand/v2", "a pure file"},
		{pureFile, module + "/pkg/generated/clientset/versioned", "a pure file"},
		{pureFile, module + "/pkg/generated/listers/apps/v1", "a pure file"},
		{pureFile, module + "/pkg/generated/informers/externalversions", "a pure file"},
	} {
		broken := checkTree(t, test.file, sourceOf(test.file, test.imported))
		want := fmt.Sprintf("%s:5: imports %s: ", test.file, test.imported)
		if len(broken) != 1 || !strings.HasPrefix(broken[0], want) || !strings.Contains(broken[0], test.why) {
			t.Errorf("%s imports %s: got %q, want one line that starts with %q and contains %q", test.file, test.imported, broken, want, test.why)
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
		{pureFile, module + "/pkg/generated/applyconfiguration/apps/v1"},
		{pureFile, "k8s.io/client-go/applyconfigurations/core/v1"},
		{"pkg/controller/helloapp/plan.go", "k8s.io/client-go/kubernetes"}, // which does not declare that it is pure
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
		if broken := checkTree(t, test.file, sourceOf(test.file, test.imported)); len(broken) > 0 {
			t.Errorf("want no complaint, got %q", broken)
		}
	}
}

func TestPureFileCallsNothingImpure(t *testing.T) {
	const source = "%spackage p\n\nimport (\n\t\"time\"\n\tclock \"time\"\n\tmetav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n" +
		"\t\"k8s.io/apimachinery/pkg/util/rand\"\n)\n\nfunc f(now time.Time) { _ = %s }\n"
	for call, allowed := range map[string]bool{
		"time.Now().After(now)":        false,
		"time.Now":                     false,
		"clock.Now()":                  false,
		"time.Since(now) > 0":          false,
		"time.Until(now) > 0":          false,
		"time.After(1)":                false,
		"time.NewTimer(1)":             false,
		"metav1.Now()":                 false,
		"metav1.NowMicro()":            false,
		"rand.String(5)":               false,
		"rand.SafeEncodeString(\"x\")": true,
		"metav1.NewTime(now)":          true,
		"now.After(time.Time{})":       true,
		"now.Sub(now) > 5*time.Second": true,
	} {
		t.Run(call, func(t *testing.T) {
			broken := checkTree(t, "pkg/controller/helloapp/start.go", fmt.Sprintf(source, pureDirective+"\n\n", call))
			if allowed != (len(broken) == 0) {
				t.Errorf("allowed is %v, got %q", allowed, broken)
			}
			if broken := checkTree(t, "pkg/controller/helloapp/plan.go", fmt.Sprintf(source, "", call)); len(broken) > 0 {
				t.Errorf("want no complaint about a file without the directive, got %q", broken)
			}
		})
	}
}

func TestMisplacedDirective(t *testing.T) {
	for name, source := range map[string]string{
		"below the package clause": "package p\n\n" + pureDirective + "\n\nvar x int\n",
		"misspelled":               directivePrefix + "pur\n\npackage p\n",
		"with more text":           pureDirective + " as snow\n\npackage p\n",
	} {
		t.Run(name, func(t *testing.T) {
			if broken := checkTree(t, "pkg/hook/hook.go", source); len(broken) != 1 || !strings.Contains(broken[0], "above the package clause") {
				t.Errorf("got %q, want one complaint", broken)
			}
		})
	}
}

func TestOtherModulesAreSkipped(t *testing.T) {
	const source = "package p\n\nimport _ \"k8s.io/kubernetes\"\n"
	for _, name := range []string{"hack/cluster/main.go", "hack/cluster/ports/ports.go", "pkg/hook/testdata/p.go", ".local/p.go", "_old/p.go"} {
		if broken := checkTree(t, name, source); len(broken) > 0 {
			t.Errorf("want no complaint, got %q", broken)
		}
	}
}

// pureFile stands for a file that declares that it is pure.
const pureFile = "pkg/controller/helloapp/pure.go"

// sourceOf returns a file with an import in its fifth line.
func sourceOf(name, imported string) string {
	directive := "// A comment."
	if name == pureFile {
		directive = pureDirective
	}
	return fmt.Sprintf("%s\n\npackage p\n\nimport _ %q\n", directive, imported)
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
