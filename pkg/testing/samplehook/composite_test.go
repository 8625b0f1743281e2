// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package samplehook

// composite returns a call of a hook of a CompositeController.
func composite(path, parent string, children, related []group) call {
	return call{path: path, parent: parent, controller: "CompositeController", children: children, related: related}
}

const (
	hello      = "{apiVersion: example.com/v1, kind: HelloWorld, metadata: {name: you, namespace: here}, spec: {who: you}}"
	helloPod   = "{apiVersion: v1, kind: Pod, metadata: {name: you}, spec: {restartPolicy: OnFailure, containers: [{name: hello, image: 'busybox:1', command: [echo, 'Hello, you!']}]}}"
	shared     = "{apiVersion: example.com/v1, kind: SharedConfig, metadata: {name: a, namespace: here}, spec: {selector: {matchLabels: {app: a}}, data: {b: c}}}"
	sharedCopy = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a-copy, labels: {app: a}}, data: {b: c}}"
)

var helloCalls = map[string]answered{
	"no Pod": {composite("/sync", hello, []group{some("v1", "Pod")}, nil), "{status: {pods: 0}, children: [" + helloPod + "]}"},
	"a Pod": {composite("/sync", hello, []group{some("v1", "Pod", "{metadata: {name: you, namespace: here}, status: {phase: Running}}")}, nil),
		"{status: {pods: 1}, children: [" + helloPod + "]}"},
}

var sharedConfigCalls = map[string]answered{
	"no copy": {composite("/sync", shared, []group{some("v1", "ConfigMap")}, nil), "{status: {copies: 0}, children: [" + sharedCopy + "]}"},
	"finalize with a copy": {composite("/finalize", shared, []group{some("v1", "ConfigMap", "{metadata: {name: a-copy, namespace: here}}")}, nil),
		"{status: {copies: 1}, children: [], finalized: false}"},
	"finalize without a copy": {composite("/finalize", shared, []group{some("v1", "ConfigMap")}, nil), "{status: {copies: 0}, children: [], finalized: true}"},
}

const (
	propagation = "{apiVersion: example.com/v1, kind: ConfigMapPropagation, metadata: {name: settings}, " +
		"spec: {source: {namespace: shop, name: settings}, namespaceSelector: {matchLabels: {settings: shop}}}}"
	settings = "{metadata: {name: settings, namespace: shop, labels: {not: copied}}, data: {a: b}, binaryData: {c: ZA==}}"
)

// aCopy returns the copy that is desired in a namespace.
func aCopy(namespace string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: " + namespace + "}, data: {a: b}, binaryData: {c: ZA==}}"
}

// propagate returns a call of sync. The related ConfigMap and Namespaces are these.
func propagate(source []string, children []string, namespaces ...string) call {
	return composite("/sync", propagation, []group{some("v1", "ConfigMap", children...)},
		[]group{some("v1", "ConfigMap", source...), some("v1", "Namespace", namespaces...)})
}

var propagationCalls = map[string]answered{
	"customize": {composite("/customize", propagation, nil, nil), `
relatedResources:
- {apiVersion: v1, resource: configmaps, namespace: shop, names: [settings]}
- {apiVersion: v1, resource: namespaces, labelSelector: {matchLabels: {settings: shop}}}`},
	"no Namespace": {propagate([]string{settings}, nil), "{status: {namespaces: 0, copies: 0}, children: []}"},
	"three Namespaces": {propagate([]string{settings}, nil, "{metadata: {name: a}}", "{metadata: {name: b}}", "{metadata: {name: c}}"),
		"{status: {namespaces: 3, copies: 0}, children: [" + aCopy("a") + ", " + aCopy("b") + ", " + aCopy("c") + "]}"},
	"all is as desired": {propagate([]string{settings}, []string{aCopy("a"), aCopy("b")}, "{metadata: {name: a}}", "{metadata: {name: b}}"),
		"{status: {namespaces: 2, copies: 2}, children: [" + aCopy("a") + ", " + aCopy("b") + "]}"},
	"the Namespace of the source": {propagate([]string{settings}, nil, "{metadata: {name: shop}}"), "{status: {namespaces: 0, copies: 0}, children: []}"},
	"a Namespace that is being deleted": {propagate([]string{settings}, []string{aCopy("a")}, "{metadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}}"),
		"{status: {namespaces: 0, copies: 1}, children: []}"},
	"no source": {propagate(nil, []string{aCopy("a")}, "{metadata: {name: a}}"),
		"{status: {namespaces: 1, copies: 1, message: ConfigMap shop/settings does not exist}, children: []}"},
	"a source without data": {propagate([]string{"{metadata: {name: settings, namespace: shop}}"}, nil, "{metadata: {name: a}}"),
		"{status: {namespaces: 1, copies: 0}, children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: a}}]}"},
}
