// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"go.uber.org/goleak"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	// The first handler logs. The second sleeps, for a time that it reckons from the process's last error: every synctest bubble begins in
	// the year 2000, so that it would sleep for decades of virtual time.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	nodes       = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

	served = map[schema.GroupVersionResource]Resource{
		configMaps:         {Kind: "ConfigMap", Namespaced: true},
		secrets:            {Kind: "Secret", Namespaced: true},
		deployments:        {Kind: "Deployment", Namespaced: true},
		nodes:              {Kind: "Node"},
		namespacesResource: {Kind: "Namespace"},
	}
)

var (
	clusterParent = Bounds{Version: hook.V1}
	v1Parent      = Bounds{Version: hook.V1, ParentNamespace: "own"}
	v2Parent      = Bounds{Version: hook.V2, ParentNamespace: "own", Strict: true}
)

// parse reads the rules as they are in an answer.
func parse(texts []string, bounds Bounds) (*Answer, error) {
	raw := make([][]byte, len(texts))
	for i, text := range texts {
		raw[i] = []byte(text)
	}
	return Parse(raw, bounds)
}

// compile returns valid rules.
func compile(t testing.TB, bounds Bounds, texts ...string) *Rules {
	t.Helper()
	answer, err := parse(texts, bounds)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := answer.Resolve(served)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// object makes an object of a resource.
func object(t testing.TB, of schema.GroupVersionResource, namespace, name, version string, labels map[string]string) *objectcache.RawObject {
	t.Helper()
	metadata := map[string]any{"name": name, "uid": "uid-" + namespace + "-" + name, "resourceVersion": version}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	text, err := json.Marshal(map[string]any{"apiVersion": of.GroupVersion().String(), "kind": served[of].Kind, "metadata": metadata})
	if err != nil {
		t.Fatal(err)
	}
	o, err := objectcache.Parse(text, false)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
