// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package samplehook

import "fmt"

// statefulSet returns a call for a StatefulSet with these ports and further fields.
func statefulSet(path, ports, more string, services ...string) call {
	return call{
		path: path, controller: "DecoratorController", finalizing: path == "/no-services", children: []group{some("v1", "Service", services...)},
		parent: fmt.Sprintf("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: here, annotations: {service-per-pod.example.com/ports: %s}}, %s}", ports, more),
	}
}

// service returns the Service that is desired for a Pod.
func service(pod string) string {
	return "{apiVersion: v1, kind: Service, metadata: {name: " + pod + ", labels: {app: service-per-pod}}, " +
		"spec: {selector: {pod-name: " + pod + "}, ports: [{name: port-80, port: 80, targetPort: 8080}]}}"
}

var servicePerPodCalls = map[string]answered{
	"two replicas": {statefulSet("/services", "'80:8080'", "spec: {replicas: 2}"), "{attachments: [" + service("db-0") + ", " + service("db-1") + "]}"},
	"as desired": {statefulSet("/services", "'80:8080'", "spec: {replicas: 1}", "{metadata: {name: db-0, namespace: here}}", "{metadata: {name: db-1, namespace: here}}"),
		"{attachments: [" + service("db-0") + "]}"},
	"no replicas":   {statefulSet("/services", "'80:8080'", "spec: {replicas: 0}"), "{attachments: []}"},
	"other numbers": {statefulSet("/services", "'80:8080'", "spec: {replicas: 1, ordinals: {start: 5}}"), "{attachments: [" + service("db-5") + "]}"},
	"two ports": {statefulSet("/services", "'80:8080, 443:8443'", "spec: {replicas: 1}"), `
attachments:
- apiVersion: v1
  kind: Service
  metadata: {name: db-0, labels: {app: service-per-pod}}
  spec: {selector: {pod-name: db-0}, ports: [{name: port-80, port: 80, targetPort: 8080}, {name: port-443, port: 443, targetPort: 8443}]}`},
	"finalize with Services":    {statefulSet("/no-services", "'80:8080'", "spec: {replicas: 1}", "{metadata: {name: db-0, namespace: here}}"), "{attachments: [], finalized: false}"},
	"finalize without Services": {statefulSet("/no-services", "'80:8080'", "spec: {replicas: 1}"), "{attachments: [], finalized: true}"},
	"label of a Pod": {call{path: "/label", controller: "DecoratorController", parent: "{apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: here}}"},
		"{labels: {pod-name: db-0}}"},
}

// mirror returns a call for the Namespace here, which is to have a copy of a Secret.
func mirror(path, from string, secrets ...string) call {
	return call{
		path: path, controller: "DecoratorController",
		parent:   "{apiVersion: v1, kind: Namespace, metadata: {name: here, annotations: {secretmirror.example.com/from: '" + from + "'}}}",
		children: []group{some("v1", "Secret")}, related: []group{some("v1", "Secret", secrets...)},
	}
}

// withoutAnnotation returns a call for a Namespace that is finalized because it has no annotation any more.
func withoutAnnotation(path string, copies ...string) call {
	return call{
		path: path, controller: "DecoratorController", finalizing: path == "/finalize", parent: "{apiVersion: v1, kind: Namespace, metadata: {name: here}}",
		children: []group{some("v1", "Secret", copies...)},
	}
}

var secretMirrorCalls = map[string]answered{
	"customize": {mirror("/customize", "certificates/wildcard"),
		"{relatedResources: [{apiVersion: v1, resource: secrets, namespace: certificates, names: [wildcard]}]}"},
	"a Secret": {mirror("/sync", "certificates/wildcard", "{metadata: {name: wildcard, namespace: certificates, labels: {not: copied}}, type: kubernetes.io/tls, data: {tls.key: YQ==}}"),
		"{attachments: [{apiVersion: v1, kind: Secret, metadata: {name: wildcard, namespace: here}, type: kubernetes.io/tls, data: {tls.key: YQ==}}]}"},
	"a Secret without data": {mirror("/sync", "certificates/wildcard", "{metadata: {name: wildcard, namespace: certificates}, type: Opaque}"),
		"{attachments: [{apiVersion: v1, kind: Secret, metadata: {name: wildcard, namespace: here}, type: Opaque, data: {}}]}"},
	"no Secret":               {mirror("/sync", "certificates/wildcard"), "{attachments: []}"},
	"its own Secret":          {mirror("/sync", "here/wildcard", "{metadata: {name: wildcard, namespace: here}, type: Opaque}"), "{attachments: []}"},
	"customize for finalize":  {withoutAnnotation("/customize"), "{relatedResources: []}"},
	"finalize with a copy":    {withoutAnnotation("/finalize", "{metadata: {name: wildcard, namespace: here}}"), "{attachments: [], finalized: false}"},
	"finalize without a copy": {withoutAnnotation("/finalize"), "{attachments: [], finalized: true}"},
}
