// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/testing/faultproxy"
)

// with returns the spec configMaps with another update method, and children of that resource.
func with(method, apiVersion, resource string) string {
	return strings.NewReplacer(
		"method: InPlace", "method: "+method, "apiVersion: v1, resource: configmaps", "apiVersion: "+apiVersion+", resource: "+resource,
	).Replace(configMaps)
}

func TestCompositeUpdateStrategies(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"OnDelete", "", "Recreate", "InPlace"} {
		t.Run("method "+method, func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Answers(oneConfigMap)
			spec := with(method, "v1", "configmaps")
			if method == "" {
				spec = strings.Replace(configMaps, ", updateStrategy: {method: InPlace}", "", 1)
			}
			e.serves(spec)
			parent := e.parent("web", "{spec: {who: me}}")
			before := e.awaitChild("ConfigMap", "web", has("me", "data", "who"))
			e.change(widget, "web", "{spec: {who: you}}")
			switch method {
			case "InPlace":
				after := e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
				if after.GetUID() != before.GetUID() {
					t.Error("the child was created again, want it updated")
				}
				e.awaitEventOn(parent, "ChildrenUpdated", "web")
			case "Recreate":
				after := e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
				if after.GetUID() == before.GetUID() {
					t.Error("the child was updated, want it created again")
				}
				e.awaitEventOn(parent, "ChildrenRecreated", "Deleted ConfigMap "+e.namespace+"/web, to be created again")
			default:
				e.awaitCall(0, func(call *hookCall) bool { return call.spec("who") == "you" })
				e.stays(500*time.Millisecond, func() string {
					if now := e.look("ConfigMap", "web"); now == nil || now.GetResourceVersion() != before.GetResourceVersion() {
						return "the child was changed"
					}
					return ""
				})
				e.remove("ConfigMap", "web")
				e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
			}
		})
	}
}

func TestCompositeChildRepaired(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps)
	e.parent("web", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "web")
	e.change("ConfigMap", "web", "{data: {who: intruder}}")
	e.awaitChild("ConfigMap", "web", has("me", "data", "who"))
	e.remove("ConfigMap", "web")
	e.awaitChild("ConfigMap", "web", has("me", "data", "who"))
}

func TestCompositeUpdateMerges(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {mine: a, old: a}, annotations: {mine: a, old: a}}, data: {keep: a, drop: a}}")
	e.serves(configMaps)
	parent := e.parent("web")
	e.awaitChild("ConfigMap", "a")
	e.change("ConfigMap", "a", "{metadata: {labels: {theirs: b}, annotations: {theirs: b}, finalizers: [example.com/theirs]}, data: {theirs: b}}")
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {mine: a}, annotations: {mine: a}}, data: {keep: a, new: a}}")
	e.change(widget, "web", "{spec: {new: true}}")
	after := e.awaitChild("ConfigMap", "a",
		has(map[string]any{"keep": "a", "new": "a", "theirs": "b"}, "data"),
		has(map[string]any{"mine": "a", "theirs": "b", "controller-uid": parent.GetUID()}, "metadata", "labels"),
		has("b", "metadata", "annotations", "theirs"), has(nil, "metadata", "annotations", "old"), ownedBy(parent))
	if !strings.Contains(after.GetAnnotations()["metacontroller.k8s.io/last-applied-configuration"], `"new":"a"`) {
		t.Errorf("annotation last-applied-configuration: got %v, want the new data", after.GetAnnotations())
	}
	e.change("ConfigMap", "a", "{metadata: {finalizers: null}}")
}

func TestCompositeChildStatusKept(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		service := object(t, `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer, ports: [{port: 80}]},
  status: {loadBalancer: {ingress: [{ip: 10.1.1.1}]}}}`).Object
		service["metadata"].(tree)["labels"] = tree{"who": call.spec("who")}
		return tree{"children": list{service}}
	})
	e.serves(with("InPlace", "v1", "services"))
	e.parent("web", "{spec: {who: me}}")
	e.awaitChild("Service", "a")
	e.change("Service", "a", "{status: {loadBalancer: {ingress: [{ip: 10.2.2.2}]}}}", "status")
	e.change(widget, "web", "{spec: {who: you}}")
	child := e.awaitChild("Service", "a", has("you", "metadata", "labels", "who"))
	if ingress := typed[corev1.Service](t, child).Status.LoadBalancer.Ingress; len(ingress) != 1 || ingress[0].IP != "10.2.2.2" {
		t.Errorf("status of the child: got ingress %v, want that of its own controller", ingress)
	}
}

// Ports are merged by number and protocol. Merged by number alone, the two ports would become one.
func TestCompositeServicePortsByProtocol(t *testing.T) {
	e := inSharedEngine(t)
	dns := func(name string) string {
		return "{apiVersion: v1, kind: Service, metadata: {name: dns, labels: {name: " + name + "}}, " +
			"spec: {ports: [{name: tcp, port: 53, protocol: TCP}, {name: udp, port: 53, protocol: UDP}]}}"
	}
	e.hook.Wants(t, dns("a"))
	e.serves(with("InPlace", "v1", "services"))
	e.parent("web")
	before := typed[corev1.Service](t, e.awaitChild("Service", "dns"))
	e.hook.Wants(t, dns("b"))
	e.change(widget, "web", "{spec: {new: true}}")
	after := typed[corev1.Service](t, e.awaitChild("Service", "dns", has("b", "metadata", "labels", "name")))
	if len(after.Spec.Ports) != 2 || after.Spec.Ports[0].Protocol != corev1.ProtocolTCP || after.Spec.Ports[1].Protocol != corev1.ProtocolUDP {
		t.Errorf("got ports %v, want one for TCP and one for UDP", after.Spec.Ports)
	}
	if after.UID != before.UID || after.Spec.ClusterIP != before.Spec.ClusterIP {
		t.Error("the Service was created again")
	}
}

// childOf is a child with its type.
type childOf struct{ apiVersion, resource, child string }

// defaulted are children in which the API server fills in defaults. The engine does not count these as differences.
var defaulted = map[string]childOf{
	"Deployment": {"apps/v1", "deployments", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, creationTimestamp: null},
  spec: {replicas: 0, selector: {matchLabels: {app: a}}, strategy: {},
  template: {metadata: {labels: {app: a}, creationTimestamp: null}, spec: {containers: [{name: a, image: nginx, resources: {limits: {cpu: 500m}},
  env: [{name: A, value: b}], ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}}}], volumes: [{name: v, configMap: {name: c}}]}}}, status: {}}`},
	"StatefulSet": {"apps/v1", "statefulsets", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 0, serviceName: a, selector: {matchLabels: {app: a}},
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: nginx}]}}}}`},
	"Service": {"v1", "services", `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {app: a}, ports: [{port: 80}]}}`},
	"Pod":     {"v1", "pods", `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: nginx, resources: {requests: {cpu: 500m}}}], volumes: [{name: v, emptyDir: {}}]}}`},
	"nulls":   {"v1", "configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: null, labels: {a: b}}, data: {a: "1"}, binaryData: null, immutable: null}`},
}

// observedChild is a child that no user has changed for a while.
type observedChild struct {
	*engineEnv
	method        string
	parent, child *unstructured.Unstructured
	writes        map[string]int // of the engine in its namespace; see writesOf
	age           time.Duration  // of the parent, when the writes were counted
}

// leaveAlone creates a CompositeController for each of these children and both update methods, with a resync every second. It returns
// them when the children have existed for this long. One engine serves them all.
func leaveAlone(t *testing.T, howLong time.Duration, children map[string]childOf) map[string]*observedChild {
	t.Helper()
	observed := map[string]*observedChild{}
	first := newEngineEnv(t)
	var journal faultproxy.Journal
	first.run(&journal)
	for name, of := range children {
		for _, method := range []string{"InPlace", "Recreate"} {
			e := newEngineEnv(t)
			e.servedBy = first.servedBy
			e.hook.Wants(t, of.child)
			e.serves(with(method, of.apiVersion, of.resource) + "\nresyncPeriodSeconds: 1\n")
			parent := e.parent("web")
			child := e.awaitChild(kindOf(object(t, "%s", of.child)), "a")
			observed[name+", "+method] = &observedChild{engineEnv: e, method: method, parent: parent, child: child}
		}
	}
	calls := map[string]int{}
	for name, o := range observed {
		calls[name] = len(o.hook.Calls())
	}
	time.Sleep(howLong)
	for name, o := range observed {
		o.eventually(func() string {
			if now := len(o.hook.Calls()) - calls[name]; now < 3 {
				return fmt.Sprintf("got %d resyncs, want 3: nothing is tested", now)
			}
			return ""
		})
		o.writes, o.age = writesOf(&journal, o.namespace), time.Since(o.parent.GetCreationTimestamp().Time)
	}
	return observed
}

// writesOf counts the writes in a namespace by verb and resource, without events.
func writesOf(journal *faultproxy.Journal, namespace string) map[string]int {
	writes := map[string]int{}
	for _, entry := range journal.Entries() {
		if entry.Namespace == namespace && entry.TookEffect() && entry.Resource != "events" {
			what := entry.Verb + " " + entry.Resource
			if entry.Subresource != "" {
				what += "/" + entry.Subresource
			}
			writes[what]++
		}
	}
	return writes
}

func TestCompositeDefaultedFields(t *testing.T) {
	t.Parallel()
	for name, o := range leaveAlone(t, 3*time.Second, defaulted) {
		resource := defaulted[strings.Split(name, ",")[0]].resource
		if diff := cmp.Diff(map[string]int{"create " + resource: 1, "update widgets/status": 1}, o.writes); diff != "" {
			t.Errorf("%s: writes of the engine (-want +got):\n%s", name, diff)
		}
		if now := o.look(kindOf(o.child), "a"); now == nil || now.GetUID() != o.child.GetUID() {
			t.Errorf("%s: the child was created again", name)
		}
	}
}

// normalised are children of which the API server drops, adds or rewrites fields. The engine writes such a child two or three times, then
// ever more rarely, and reports it.
var normalised = map[string]childOf{
	"defaults in lists": {"networking.k8s.io/v1", "networkpolicies", `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a},
  spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}`},
	"empty lists": {"networking.k8s.io/v1", "networkpolicies", `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a},
  spec: {podSelector: {}, ingress: [{ports: [{port: 80}], from: []}]}}`},
	"quantities": {"apps/v1", "deployments", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 0, selector: {matchLabels: {app: a}},
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: nginx, resources: {limits: {cpu: 1000m}}}]}}}}`},
	"templates of claims": {"apps/v1", "statefulsets", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 0,
  selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: nginx}]}},
  volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`},
	"field of the scheduler": {"v1", "pods", `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: nginx}], nodeName: null,
  tolerations: [{key: a, operator: Exists}]}}`},
	"added tolerations": {"v1", "pods", `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: nginx}],
  tolerations: [{key: a, operator: Exists}]}}`},
}

func TestCompositeChangedByAPIServer(t *testing.T) {
	t.Parallel()
	for name, o := range leaveAlone(t, 5*time.Second, normalised) {
		resource := normalised[strings.Split(name, ",")[0]].resource
		t.Logf("%s: %v", name, o.writes)
		// Two immediate updates, then one after each delay. The first delay is a second, and each next one is twice as long.
		most := 3 + int(math.Log2(o.age.Seconds()))
		if updates, deletions := o.writes["update "+resource], o.writes["delete "+resource]; updates > most || deletions > 0 {
			t.Errorf("%s: got %d updates and %d deletions in %s, want %d updates at most", name, updates, deletions, o.age, most)
		}
		if o.method == "Recreate" {
			o.awaitEventOn(o.parent, "ChildrenStuck", o.child.GetKind()+" "+o.namespace+"/a")
		}
		o.awaitChild(kindOf(o.child), "a")
	}
}

func TestCompositeTerminatingChild(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps)
	e.parent("web", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "web")
	e.change("ConfigMap", "web", "{metadata: {finalizers: [example.com/wait]}}")
	e.remove("ConfigMap", "web")
	deleting := e.look("ConfigMap", "web")
	e.change(widget, "web", "{spec: {who: you}}")
	e.awaitCall(0, func(call *hookCall) bool { return call.spec("who") == "you" })
	e.stays(300*time.Millisecond, func() string {
		if e.look("ConfigMap", "web").GetResourceVersion() != deleting.GetResourceVersion() {
			return "the terminating child was written"
		}
		return ""
	})
	e.change("ConfigMap", "web", "{metadata: {finalizers: null}}")
	e.awaitChild("ConfigMap", "web", has("you", "data", "who"), func(o *unstructured.Unstructured) string {
		if o.GetUID() == deleting.GetUID() {
			return "the child was not created again"
		}
		return ""
	})
}

func TestCompositeManyChildrenOneEvent(t *testing.T) {
	e := inSharedEngine(t)
	var children []string
	for i := range 40 {
		children = append(children, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c%02d}}", i))
	}
	e.hook.Wants(t, children...)
	e.serves(configMaps)
	parent := e.parent("web")
	e.awaitEventOn(parent, "ChildrenCreated", "Created 40 ConfigMap: ")
	for i := range 40 {
		e.awaitChild("ConfigMap", fmt.Sprintf("c%02d", i), ownedBy(parent))
	}
	if events := e.eventsOn(parent); len(events) != 1 {
		t.Errorf("got %d events, want 1", len(events))
	}
}
