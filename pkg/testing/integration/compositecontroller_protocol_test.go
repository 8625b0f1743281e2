// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/patience"
)

// members returns the keys of a JSON object in their order.
func members(t *testing.T, body []byte) (keys []string) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

func TestCompositeHookRequestFormat(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Answers(oneConfigMap)
			cc := e.serves(`
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: v1, resource: configmaps}, {apiVersion: apps/v1, resource: deployments}]
hooks: {sync: {version: ` + version + `, webhook: {url: HOOK/some/path}}}
`)
			parent := e.parent("web", "{spec: {who: me}}")
			call := e.awaitCall(0, func(call *hookCall) bool { return len(call.Children["ConfigMap.v1"]) == 1 })
			if call.path != "/some/path" || call.header.Get("Content-Type") != "application/json" || call.header.Get("Authorization") != "" {
				t.Errorf("got a request for %s with the headers %v", call.path, call.header)
			}
			if diff := cmp.Diff([]string{"controller", "parent", "children", "related", "finalizing"}, members(t, call.body)); diff != "" {
				t.Errorf("keys of the request (-want +got):\n%s", diff)
			}
			if call.Related == nil || len(call.Related) > 0 || call.Finalizing {
				t.Errorf("got related %v and finalizing %t, want an empty object and false", call.Related, call.Finalizing)
			}
			want := []string{"ConfigMap.v1", "Deployment.apps/v1"}
			if got := slices.Sorted(maps.Keys(call.Children)); !slices.Equal(got, want) || call.Children["Deployment.apps/v1"] == nil {
				t.Errorf("types of children: got %v, want %v", got, want)
			}
			key := map[string]string{"v1": "web", "v2": e.namespace + "/web"}[version]
			child, _ := call.Children["ConfigMap.v1"][key].(tree)
			if child == nil {
				t.Fatalf("keys of the children: got %v, want %s", slices.Collect(maps.Keys(call.Children["ConfigMap.v1"])), key)
			}
			if diff := cmp.Diff(tree{"who": "me"}, child["data"]); child["kind"] != "ConfigMap" || child["apiVersion"] != "v1" || diff != "" {
				t.Errorf("got child %v", child)
			}
			if bytes.Contains(call.body, []byte("managedFields")) {
				t.Error("the request has managedFields")
			}
			if call.Controller["kind"] != "CompositeController" || call.Controller["apiVersion"] != "metacontroller.k8s.io/v1alpha1" || !cmp.Equal(call.Controller["status"], tree{}) ||
				call.Controller["metadata"].(tree)["uid"] != string(cc.GetUID()) || call.Controller["spec"] == nil {
				t.Errorf("got controller %v", call.Controller)
			}
			uid := call.Parent["metadata"].(tree)["uid"]
			if uid != string(parent.GetUID()) || call.Parent["kind"] != "Widget" || call.spec("who") != "me" {
				t.Errorf("got parent %v", call.Parent)
			}
		})
	}
}

func TestCompositeClusterScopedChildKeys(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: "+e.namespace+"}}")
			e.serves(strings.Replace(strings.Replace(configMaps, "widgets", "clusterwidgets", 1), "sync: {", "sync: {version: "+version+", ", 1))
			parent := e.put("{apiVersion: test.example.com/v1, kind: ClusterWidget, metadata: {name: %s, labels: {%s: %s}}}", e.name, testLabel, e.namespace)
			e.cleanUp(clusterWidget, e.name)
			e.awaitChild("ConfigMap", "a", ownedBy(parent))
			e.awaitCall(0, func(call *hookCall) bool { return call.Children["ConfigMap.v1"][e.namespace+"/a"] != nil })
			e.awaitChild(clusterWidget, e.name, has(1, "status", "observedGeneration"))
		})
	}
}

func TestCompositeStrictUnknownField(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ hook, reason string }{
		{"", "Serving"},
		{"version: v2,", "HookResponseUnknownField"},
		{"STRICT", "HookResponseUnknownField"},
		{"version: v2, LOOSE", "Serving"},
	} {
		t.Run(test.hook, func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Says(says(http.StatusOK, `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{}}],`+
				`"childs":[],"status":{"anything":{"goes":true}}}`))
			mode := "webhook: {url: HOOK/sync}"
			for name, value := range map[string]string{"STRICT": "strict", "LOOSE": "loose"} {
				if strings.Contains(test.hook, name) {
					mode = "webhook: {url: HOOK/sync, responseUnMarshallMode: " + value + "}"
				}
			}
			e.serves(strings.Replace(configMaps, "webhook: {url: HOOK/sync}", strings.NewReplacer("STRICT", "", "LOOSE", "").Replace(test.hook)+" "+mode, 1))
			parent := e.parent("web")
			if test.reason == v1alpha1.ReasonServing {
				e.awaitChild("ConfigMap", "a")
				e.awaitReason(test.reason)
				return
			}
			if message := e.awaitReason(test.reason); !strings.Contains(message, `unknown field "childs"`) {
				t.Errorf("message of the condition: got %q, want the unknown field in it", message)
			}
			e.awaitEventOn(parent, "SyncError", "childs")
			if e.look("ConfigMap", "a") != nil {
				t.Error("a child of the invalid response was created")
			}
		})
	}
}

func TestCompositeHookETag(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusNotModified, http.StatusPreconditionFailed} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Answers(func(call *hookCall) any {
				if call.header.Get("If-None-Match") == `"one"` {
					return says(code, "")
				}
				return says(http.StatusOK, `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"n":"1"}}]}`, "ETag", `"one"`)
			})
			// A spec with only the timeout made Metacontroller crash.
			e.serves(strings.Replace(configMaps, "url: HOOK/sync", "url: HOOK/sync, etag: {enabled: true, cacheTimeoutSeconds: 60}", 1))
			e.parent("web")
			e.awaitChild("ConfigMap", "a")
			e.change(widget, "web", "{spec: {new: true}}")
			e.change("ConfigMap", "a", "{data: {n: '2'}}")
			e.awaitChild("ConfigMap", "a", has("1", "data", "n"))
			reused := e.awaitCall(1, func(call *hookCall) bool { return call.header.Get("If-None-Match") != "" })
			if len(reused.body) == 0 {
				t.Error("the request has no body")
			}
			e.awaitReason(v1alpha1.ReasonServing)
			// The response is cached for one parent only.
			e.parent("other")
			first := e.awaitCall(0, func(call *hookCall) bool { return call.name() == "other" })
			if first.header.Get("If-None-Match") != "" {
				t.Error("the ETag of one parent was sent for another")
			}
		})
	}
}

func TestCompositeRetryAfter(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]func() string{
		"in seconds": func() string { return "2" },
		"as a date":  func() string { return time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat) }, // whole seconds
	} {
		t.Run(name, func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Answers(func(call *hookCall) any {
				if len(e.hook.Calls()) == 1 {
					return says(http.StatusTooManyRequests, "", "Retry-After", header())
				}
				return oneConfigMap(call)
			})
			e.serves(configMaps)
			e.awaitReason(v1alpha1.ReasonServing) // else the parent may be synced twice, the second time as one that existed before
			parent := e.parent("web")
			e.awaitChild("ConfigMap", "web")
			calls := e.hook.Calls()
			if wait := calls[1].at.Sub(calls[0].at); wait < 1900*time.Millisecond {
				t.Errorf("the hook was called again after %s, want 2 s", wait)
			}
			if count := e.countEvents(parent, "SyncError"); count > 0 {
				t.Errorf("got %d events SyncError, want none", count)
			}
		})
	}
}

// Without a valid Retry-After, Metacontroller calls the hook again immediately, without end. The engine backs off.
func TestCompositeRetryAfterMissing(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{
		"no header": nil, "not a number": {"Retry-After", "soon"}, "in the past": {"Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"}, "zero": {"Retry-After", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Says(says(http.StatusTooManyRequests, "", headers...))
			e.serves(configMaps)
			e.parent("web")
			e.awaitCalls(9)
			longest := time.Duration(0)
			for calls := e.hook.Calls(); len(calls) > 1; calls = calls[1:] {
				longest = max(longest, calls[1].at.Sub(calls[0].at))
			}
			if longest < 100*time.Millisecond {
				t.Errorf("longest delay between nine calls: got %s, want 100 ms: delays have to grow", longest)
			}
			e.hook.Answers(oneConfigMap)
			e.awaitChild("ConfigMap", "web")
		})
	}
}

func TestCompositeHookTimeout(t *testing.T) {
	e := inSharedEngine(t)
	waited := make(chan time.Duration, 100)
	e.hook.Says(raw(func(_ http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		<-r.Context().Done()
		waited <- time.Since(begin)
	}))
	e.serves(strings.Replace(configMaps, "url: HOOK/sync", "url: HOOK/sync, timeout: 300ms", 1))
	parent := e.parent("web")
	e.awaitEventOn(parent, "SyncError", "Client.Timeout")
	took := []time.Duration{<-waited, <-waited, <-waited} // on a busy machine one may take longer, or be received late
	if slices.Max(took) < 50*time.Millisecond || slices.Min(took) >= hook.DefaultTimeout {
		t.Errorf("calls ended after %s, want about 300 ms", took)
	}
	e.awaitReason("HookUnreachable")
	e.hook.Answers(oneConfigMap)
	e.awaitChild("ConfigMap", "web")
}

// A new spec does not wait for calls of the old one, which would end after the test has given up.
func TestCompositeChangeWhileHookHangs(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/sync" {
			return raw(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}
		return oneConfigMap(call)
	})
	cc := e.serves(strings.Replace(configMaps, "url: HOOK/sync", "url: HOOK/sync, timeout: "+(2*patience.Limit).String(), 1))
	for _, name := range []string{"a", "b", "c"} {
		e.parent(name)
	}
	e.awaitCall(0, func(call *hookCall) bool { return true })
	e.change(composite, e.name, "{spec: {hooks: {sync: {webhook: {url: "+e.hook.URL+"/new}}}}}")
	for _, name := range []string{"a", "b", "c"} {
		e.awaitChild("ConfigMap", name)
	}
	for reason, times := range map[string]int{"Starting": 2, "Started": 2, "Stopping": 1, "Stopped": 1} {
		e.eventually(func() string {
			if count := e.countEvents(cc, reason); count != times {
				return fmt.Sprintf("got %d events %s, want %d", count, reason, times)
			}
			return ""
		})
	}
}

func TestCompositeManagedFields(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.hook.Answers(oneConfigMap)
	e.run(&faultproxy.Journal{}, func(options *manager.Options) { setFlag(t, options, "hook-managed-fields", "true") })
	e.serves(configMaps)
	e.parent("web")
	call := e.awaitCall(0, func(call *hookCall) bool { return len(call.Children["ConfigMap.v1"]) == 1 })
	for what, o := range map[string]any{"parent": call.Parent, "child": call.Children["ConfigMap.v1"]["web"]} {
		if o.(tree)["metadata"].(tree)["managedFields"] == nil {
			t.Errorf("the %s in the request has no managedFields", what)
		}
	}
}
