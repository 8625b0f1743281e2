// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// customized returns the spec widgets with a customize hook. Both hooks have this version.
func customized(version string) string {
	return strings.Replace(widgets, "hooks: {sync: {", "hooks: {customize: {version: "+version+", webhook: {url: HOOK/customize}}, sync: {version: "+version+", ", 1)
}

// relates makes the customize hook answer with rules, in YAML. The other hooks want nothing.
func (e *engineEnv) relates(rules string) {
	e.Helper()
	answer := object(e, "{relatedResources: %s}", rules).Object
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/customize" {
			return answer
		}
		return tree{}
	})
}

// relatedIn returns the related objects of a request as "Kind.version key", sorted. A type without objects is "Kind.version".
func relatedIn(call *hookCall) (related []string) {
	for kind, objects := range call.Related {
		if len(objects) == 0 {
			related = append(related, kind)
		}
		for key := range objects {
			related = append(related, kind+" "+key)
		}
	}
	slices.Sort(related)
	return related
}

// awaitRelated waits until the last call of sync for the parent or target has exactly these related objects.
func (e *engineEnv) awaitRelated(name string, want ...string) {
	e.Helper()
	slices.Sort(want)
	e.eventually(func() string {
		calls := slices.DeleteFunc(e.hook.CallsOf("/sync"), func(call *hookCall) bool { return call.name() != name })
		if len(calls) == 0 {
			return "sync was not called for " + name
		}
		return cmp.Diff(want, relatedIn(calls[len(calls)-1]))
	})
}

var services = corev1.SchemeGroupVersion.WithResource("services")

// service creates a Service in a namespace.
func (e *engineEnv) service(namespace, name, labels string) {
	e.Helper()
	o := object(e, "{apiVersion: v1, kind: Service, metadata: {name: %s, labels: {%s}}, spec: {ports: [{port: 80}]}}", name, labels)
	if _, err := e.dynamic.Resource(services).Namespace(namespace).Create(e.Context(), o, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

func TestCustomizeRules(t *testing.T) {
	t.Parallel()
	// OWN and OTHER stand for two namespaces, of which OTHER has the label team: NAME. Each has the Services a and b, of which a has the label app: NAME.
	for _, test := range []struct {
		version, rules string
		want           []string
	}{
		{"v1", "[{apiVersion: v1, resource: services, names: [a, none]}]", []string{"Service.v1 a"}},
		{"v1", "[{apiVersion: v1, resource: services, labelSelector: {matchLabels: {app: NAME}}}]", []string{"Service.v1 a"}},
		{"v1", "[{apiVersion: v1, resource: services}]", []string{"Service.v1 a", "Service.v1 b"}},
		{"v1", "[{apiVersion: v1, resource: services, namespace: OWN}]", []string{"Service.v1 a", "Service.v1 b"}},
		{"v1", "[{apiVersion: v1, resource: services, names: [none]}]", []string{"Service.v1"}},
		{"v1", "[{apiVersion: v1, resource: services, names: [b]}, {apiVersion: v1, resource: services, labelSelector: {matchLabels: {app: NAME}}}]",
			[]string{"Service.v1 a", "Service.v1 b"}},
		{"v1", "[]", nil},
		{"v1", "null", nil},
		{"v2", "[{apiVersion: v1, resource: services, namespace: OTHER, names: [a]}]", []string{"Service.v1 OTHER/a"}},
		{"v2", "[{apiVersion: v1, resource: services, namespace: OTHER}]", []string{"Service.v1 OTHER/a", "Service.v1 OTHER/b"}},
		{"v2", "[{apiVersion: v1, resource: services, labelSelector: {matchLabels: {app: NAME}}}]", []string{"Service.v1 OTHER/a", "Service.v1 OWN/a"}},
		{"v2", "[{apiVersion: v1, resource: services, namespace: OTHER, labelSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}]", []string{"Service.v1 OTHER/b"}},
		{"v2", "[{apiVersion: v1, resource: services, namespaceSelector: {matchLabels: {team: NAME}}}]", []string{"Service.v1 OTHER/a", "Service.v1 OTHER/b"}},
		{"v2", "[{apiVersion: v1, resource: services, namespaceSelector: {matchLabels: {team: NAME}}, labelSelector: {matchLabels: {app: NAME}}}]", []string{"Service.v1 OTHER/a"}},
		{"v2", "[{apiVersion: v1, resource: namespaces, labelSelector: {matchLabels: {team: NAME}}}]", []string{"Namespace.v1 OTHER"}},
		{"v2", "[{apiVersion: v1, resource: namespaces, names: [OTHER]}, {apiVersion: apps/v1, resource: deployments, namespace: OTHER}]",
			[]string{"Deployment.apps/v1", "Namespace.v1 OTHER"}},
	} {
		for _, kind := range []string{"DecoratorController", "CompositeController"} {
			t.Run(kind+" "+test.version+" "+test.rules, func(t *testing.T) {
				e := decorating(t)
				other := e.cluster.Namespace(t)
				filled := strings.NewReplacer("OWN", e.namespace, "OTHER", other, "NAME", e.name)
				e.change("Namespace", other, "{metadata: {labels: {team: "+e.name+"}}}")
				for _, namespace := range []string{e.namespace, other} {
					e.service(namespace, "a", "app: "+e.name)
					e.service(namespace, "b", "")
				}
				e.relates(filled.Replace(test.rules))
				if kind == "DecoratorController" {
					e.decorates(customized(test.version))
				} else {
					hooks := customized(test.version)[strings.Index(customized(test.version), "hooks: "):]
					e.serves("generateSelector: true\nparentResource: {apiVersion: test.example.com/v1, resource: widgets}\n" + hooks)
				}
				e.parent("web")
				var want []string
				for _, key := range test.want {
					want = append(want, filled.Replace(key))
				}
				e.awaitRelated("web", want...)
				for _, call := range e.hook.CallsOf("/sync") { // nothing is sent half
					if diff := cmp.Diff(want, relatedIn(call)); diff != "" {
						t.Errorf("related objects of a call (-want +got):\n%s", diff)
					}
				}
				asked := e.hook.CallsOf("/customize")[0]
				if diff := cmp.Diff([]string{"controller", "parent"}, members(t, asked.body)); diff != "" {
					t.Errorf("keys of the request of customize (-want +got):\n%s", diff)
				}
				if asked.Parent["kind"] != "Widget" || asked.Controller["kind"] != kind {
					t.Errorf("customize of %v was called for %v, want %s and Widget", asked.Controller["kind"], asked.Parent["kind"], kind)
				}
			})
		}
	}
}

// A cluster-scoped parent may select in all namespaces with both versions, and the keys have the namespace.
func TestCustomizeClusterScopedParent(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			e := decorating(t)
			e.service(e.namespace, "a", "")
			e.relates("[{apiVersion: v1, resource: services, namespace: " + e.namespace + "}, {apiVersion: v1, resource: namespaces, names: [" + e.namespace + "]}]")
			e.decorates(strings.Replace(customized(version), "resource: widgets", "resource: clusterwidgets", 1))
			e.put("{apiVersion: test.example.com/v1, kind: ClusterWidget, metadata: {name: %s, labels: {%s: %s}}}", e.name, testLabel, e.namespace)
			e.cleanUp(clusterWidget, e.name)
			e.awaitRelated(e.name, "Service.v1 "+e.namespace+"/a", "Namespace.v1 "+e.namespace)
		})
	}
}

// The change of a related object leads to a call for exactly the targets whose rules select it.
func TestCustomizeRelatedChangeSyncs(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		if call.path != "/customize" {
			return tree{}
		}
		return tree{"relatedResources": list{tree{"apiVersion": "v1", "resource": "services", "names": list{call.name()}}}}
	})
	e.decorates(customized("v1"))
	names := []string{"a", "b", "c"}
	for _, name := range names {
		e.service(e.namespace, name, "")
		e.parent(name)
		e.awaitRelated(name, "Service.v1 "+name)
	}
	for _, test := range []struct {
		what   string
		change func()
		want   []string
	}{
		{"changed", func() { e.change("Service", "a", "{metadata: {labels: {note: changed}}}") }, []string{"Service.v1 a"}},
		{"deleted", func() { e.remove("Service", "a") }, []string{"Service.v1"}},
		{"created", func() { e.service(e.namespace, "a", "note: changed") }, []string{"Service.v1 a"}},
	} {
		e.calm()
		before := len(e.hook.Calls())
		test.change()
		e.eventually(func() string {
			if len(e.hook.Calls()) == before {
				return "no hook was called after the Service was " + test.what
			}
			return ""
		})
		e.awaitRelated("a", test.want...)
		e.calm()
		for _, call := range e.hook.Calls()[before:] {
			if call.name() != "a" || call.path != "/sync" {
				t.Errorf("%s: %s was called for %s, want only sync for a", test.what, call.path, call.name())
			}
		}
	}
	e.calm()
	before := len(e.hook.Calls())
	e.service(e.namespace, "unrelated", "")
	e.stays(500*time.Millisecond, func() string {
		if len(e.hook.Calls()) > before {
			return "a hook was called for an object that no rule selects"
		}
		return ""
	})
}

// An object that gets the labels of a rule, or loses them, and a Namespace that does so, change what is related.
func TestCustomizeRelabelled(t *testing.T) {
	e := decorating(t)
	other := e.cluster.Namespace(t)
	for _, name := range []string{"a", "b"} {
		e.service(other, name, "")
	}
	e.relates("[{apiVersion: v1, resource: services, namespaceSelector: {matchLabels: {team: " + e.name + "}}, labelSelector: {matchExpressions: [{key: not, operator: DoesNotExist}]}}]")
	e.decorates(customized("v2"))
	e.parent("web")
	e.awaitRelated("web", "Service.v1")
	e.change("Namespace", other, "{metadata: {labels: {team: "+e.name+"}}}")
	e.awaitRelated("web", "Service.v1 "+other+"/a", "Service.v1 "+other+"/b")
	label := func(labels string) {
		t.Helper()
		patch := []byte(`{"metadata": {"labels": {"not": ` + labels + `}}}`)
		if _, err := e.dynamic.Resource(services).Namespace(other).Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"wanted"`)
	e.awaitRelated("web", "Service.v1 "+other+"/b")
	label("null")
	e.awaitRelated("web", "Service.v1 "+other+"/a", "Service.v1 "+other+"/b")
	e.change("Namespace", other, "{metadata: {labels: {team: null}}}")
	e.awaitRelated("web", "Service.v1")
}

// customize is asked again when labels, annotations or spec of the target change, whether its kind has generations or not, and not for its status.
func TestCustomizeAskedAgain(t *testing.T) {
	t.Parallel()
	for kind, of := range map[string]string{widget: "{apiVersion: test.example.com/v1, kind: Widget, ", "ConfigMap": "{apiVersion: v1, kind: ConfigMap, "} {
		t.Run(kind, func(t *testing.T) {
			e := decorating(t)
			e.hook.Answers(func(call *hookCall) any {
				if call.path != "/customize" {
					return tree{}
				}
				annotations, _ := call.Parent["metadata"].(tree)["annotations"].(tree)
				return tree{"relatedResources": list{tree{"apiVersion": "v1", "resource": "services", "names": list{annotations["service"]}}}}
			})
			for _, name := range []string{"a", "b"} {
				e.service(e.namespace, name, "")
			}
			spec := customized("v1")
			if kind == "ConfigMap" {
				spec = strings.Replace(spec, "apiVersion: test.example.com/v1, resource: widgets", "apiVersion: v1, resource: configmaps", 1)
			}
			e.decorates(spec)
			e.put(of+"metadata: {name: web, labels: {%s: %s}, annotations: {service: a}}}", testLabel, e.namespace)
			e.awaitRelated("web", "Service.v1 a")
			e.change(kind, "web", "{metadata: {annotations: {service: b}}}")
			e.awaitRelated("web", "Service.v1 b")
			// What only the rules before have selected concerns the target no more.
			e.calm()
			before := len(e.hook.Calls())
			e.change("Service", "a", "{metadata: {labels: {note: changed}}}")
			e.stays(500*time.Millisecond, func() string {
				if len(e.hook.Calls()) > before {
					return "a hook was called for an object that is not related any more"
				}
				return ""
			})
			e.change("Service", "b", "{metadata: {labels: {note: changed}}}")
			e.awaitCalls(before + 1)
			if kind != widget {
				return
			}
			e.calm()
			asked := len(e.hook.CallsOf("/customize"))
			e.change(widget, "web", "{status: {a: b}}", "status")
			e.awaitCall(before, func(call *hookCall) bool { return call.Object["status"] != nil })
			if now := len(e.hook.CallsOf("/customize")); now > asked {
				t.Error("customize was called for a change of the status")
			}
			e.change(widget, "web", "{spec: {a: b}}")
			e.eventually(func() string {
				if len(e.hook.CallsOf("/customize")) == asked {
					return "customize was not called for a change of the spec"
				}
				return ""
			})
		})
	}
}

// Nothing is sent to sync, and nothing is written, while it is unknown what is related.
func TestCustomizeInvalidRules(t *testing.T) {
	t.Parallel()
	rule := func(more string) string {
		return "[{apiVersion: v1, resource: configmaps, names: [a]}, {apiVersion: v1, resource: services" + more + "}]"
	}
	for name, test := range map[string]struct {
		version, rules, reason, text string
	}{
		"names and labelSelector":         {"v2", rule(", names: [a], labelSelector: {}"), "HookRelatedInvalid", "relatedResources[1].names"},
		"names and namespaceSelector":     {"v2", rule(", names: [a], namespaceSelector: {}"), "HookRelatedInvalid", "relatedResources[1].names"},
		"namespace and namespaceSelector": {"v2", rule(", namespace: default, namespaceSelector: {}"), "HookRelatedInvalid", "relatedResources[1].namespace"},
		"another namespace with v1":       {"v1", rule(", namespace: default"), "HookRelatedInvalid", "relatedResources[1].namespace"},
		"namespaceSelector with v1":       {"v1", rule(", namespaceSelector: {}"), "HookRelatedInvalid", "relatedResources[1].namespaceSelector"},
		"invalid labelSelector":           {"v1", rule(", labelSelector: {matchExpressions: [{key: a, operator: Like}]}"), "HookRelatedInvalid", "relatedResources[1].labelSelector"},
		"no resource":                     {"v1", "[{apiVersion: v1}]", "HookRelatedInvalid", "relatedResources[0].resource"},
		"namespaceSelector of a cluster-scoped kind": {"v2", "[{apiVersion: test.example.com/v1, resource: clusterwidgets, namespaceSelector: {matchLabels: {a: b}}}]",
			"HookRelatedInvalid", "relatedResources[0].namespaceSelector"},
		"cluster-scoped kind with v1": {"v1", "[{apiVersion: v1, resource: namespaces, names: [default]}]", "HookRelatedInvalid", "set version v2 of that hook"},
		"not served":                  {"v1", "[{apiVersion: test.example.com/v1, resource: gadgets}]", "HookRelatedNotServed", "gadgets.test.example.com"},
		"rules are an object":         {"v1", "{}", "HookResponseInvalid", "relatedResources"},
		"rule is a text":              {"v1", "[configmaps]", "HookResponseInvalid", "relatedResources[0]"},
		"unknown field in strict":     {"v2", rule(", label: {}"), "HookResponseUnknownField", "label"},
		"names are not texts":         {"v1", "[{apiVersion: v1, resource: services, names: [1]}]", "HookResponseInvalid", "relatedResources[0].names"},
		"the hook answers with 500":   {"v1", "", "HookFailed", "the rules are lost"},
	} {
		t.Run(name, func(t *testing.T) {
			e := decorating(t)
			if test.rules == "" {
				e.hook.Says(says(http.StatusInternalServerError, "the rules are lost"))
			} else {
				e.relates(test.rules)
			}
			e.decorates(customized(test.version))
			target := e.parent("web")
			if message := e.awaitDecorator(test.reason); !strings.Contains(message, test.text) {
				t.Errorf("message of the condition: got %q, want %q in it", message, test.text)
			}
			e.awaitEventOn(target, "SyncError", test.text)
			if calls := e.hook.CallsOf("/sync"); len(calls) > 0 {
				t.Errorf("got %d calls of sync, want none", len(calls))
			}
			e.service(e.namespace, "a", "")
			e.relates("[{apiVersion: v1, resource: services, namespace: " + e.namespace + ", names: [a]}]")
			e.change(widget, "web", "{metadata: {annotations: {corrected: 'yes'}}}")
			e.awaitRelated("web", "Service.v1 "+map[string]string{"v1": "a", "v2": e.namespace + "/a"}[test.version])
			e.awaitDecorator(v1alpha1.ReasonServing)
		})
	}
}

// The definition of a related type is deleted, and made again, while everything is synced.
func TestCustomizeRelatedTypeIsDeleted(t *testing.T) {
	e := decorating(t)
	group := e.name + ".example.com"
	e.grantEngine(rightsOnParents(group, "gadgets")...)
	e.definition("Gadget", "gadgets", "{}")
	e.relates("[{apiVersion: " + group + "/v1, resource: gadgets, names: [a]}]")
	e.decorates(customized("v1"))
	e.parent("web")
	e.awaitRelated("web", "Gadget."+group+"/v1")
	e.awaitDecorator(v1alpha1.ReasonServing)
	e.remove(definitions, "gadgets."+group)
	e.awaitDecorator("HookRelatedNotServed")
	e.awaitGone(definitions, "gadgets."+group)
	e.definition("Gadget", "gadgets", "{}")
	e.awaitDecorator(v1alpha1.ReasonServing)
	e.put("{apiVersion: %s/v1, kind: Gadget, metadata: {name: a}}", group)
	e.awaitRelated("web", "Gadget."+group+"/v1 a")
}

// finalize gets the related objects, too: customize is asked again when the deletion begins.
func TestCustomizeForFinalize(t *testing.T) {
	e := decorating(t)
	e.service(e.namespace, "a", "")
	e.service(e.namespace, "b", "")
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/customize" {
			name := "b"
			if _, deleted := call.Parent["metadata"].(tree)["deletionTimestamp"]; deleted {
				name = "a"
			}
			return tree{"relatedResources": list{tree{"apiVersion": "v1", "resource": "services", "names": list{name}}}}
		}
		// It waits until the Service is gone.
		return tree{"finalized": len(call.Related["Service.v1"]) == 0}
	})
	e.decorates(alsoFinalized(customized("v1")))
	e.parent("web")
	e.awaitChild(widget, "web", finalizers(e.mark()))
	e.awaitRelated("web", "Service.v1 b")
	e.remove(widget, "web")
	e.awaitCall(0, func(call *hookCall) bool {
		return call.Finalizing && slices.Equal(relatedIn(call), []string{"Service.v1 a"})
	})
	e.remove("Service", "a")
	e.awaitGone(widget, "web")
}

// One object by its name is one watch by its name, which ends when no rule needs it.
func TestCustomizeNarrowWatches(t *testing.T) {
	t.Parallel()
	e := newDecoratorEnv(t)
	e.secret("a", map[string]string{"key": "value"})
	e.secret("b", map[string]string{"key": "value"})
	e.hook.Answers(func(call *hookCall) any {
		name, _ := call.subject()["spec"].(tree)["secret"].(string)
		if call.path != "/customize" || name == "" {
			return tree{}
		}
		return tree{"relatedResources": list{tree{"apiVersion": "v1", "resource": "secrets", "names": list{name}}}}
	})
	var journal faultproxy.Journal
	e.run(&journal)
	e.decorates(customized("v1"))
	e.parent("web", "{spec: {secret: a}}")
	e.awaitRelated("web", "Secret.v1 a")
	e.change(widget, "web", "{spec: {secret: b}}")
	e.awaitRelated("web", "Secret.v1 b")
	e.change(widget, "web", "{spec: {secret: null}}")
	e.awaitRelated("web")
	watched := map[string]bool{}
	for _, entry := range journal.Entries() {
		if entry.Resource == "secrets" {
			watched[fmt.Sprint(entry.Verb, " ", entry.Namespace, " ", entry.Query.Get("fieldSelector"))] = true
		}
	}
	for _, request := range slices.Sorted(maps.Keys(watched)) {
		if !strings.HasPrefix(request, "watch "+e.namespace+" metadata.name=") && !strings.HasPrefix(request, "list "+e.namespace+" metadata.name=") {
			t.Errorf("got the request %q, want only Secrets by their names", request)
		}
	}
	if len(watched) < 2 {
		t.Errorf("got the requests %v, want a watch of each Secret", watched)
	}
}
