// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"millwright.dev/pkg/testing/patience"
)

// decoratorSamples is the folder with the samples of the guide.
const decoratorSamples = "../../../manifests/samples/decoratorcontroller/"

// deploySample applies a sample, and waits until its hook runs and the controllers are Ready.
func (s *suite) deploySample(t *testing.T, file, hook string, controllers ...string) {
	t.Helper()
	s.Kubectl(t, "apply", "-f", file)
	t.Cleanup(func() {
		s.Kubectl(t, append([]string{"delete", patience.Timeout}, controllers...)...) // before the rights that this needs
		s.Kubectl(t, "delete", "-f", file, "--wait=false", "--ignore-not-found")
	})
	namespace, deployment, _ := strings.Cut(hook, "/")
	s.Kubectl(t, "rollout", "status", "-n", namespace, "deployment/"+deployment, patience.Timeout)
	for _, controller := range controllers {
		s.become(t, "", controller, "Ready")
	}
}

// testDecoratorController follows the guide with a Service for each Pod of a StatefulSet.
func (s *suite) testDecoratorController(t *testing.T) {
	s.loadSampleImages(t)
	s.deploySample(t, decoratorSamples+"service-per-pod.yaml", "service-per-pod/service-per-pod", "dec/service-per-pod", "dec/pod-name-label")
	contains(t, "kubectl get decorators", strings.Join(strings.Fields(s.Kubectl(t, "get", "decorators")), " "),
		"NAME RESOURCES ATTACHMENTS READY AGE", "service-per-pod statefulsets services True")

	ns := s.Namespace(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Kubectl(t, "describe", "statefulsets,pods,services", "-n", ns))
		}
	})
	s.Kubectl(t, "apply", "-n", ns, "-f", decoratorSamples+"shards.yaml")
	s.Kubectl(t, "rollout", "status", "-n", ns, "statefulset/shards", patience.Timeout)
	addresses := map[string]string{}
	for _, pod := range []string{"shards-0", "shards-1"} {
		s.awaitAnswer(t, ns, pod)
		addresses[pod] = s.read(t, ns, "service/"+pod, ".spec.clusterIP")
	}

	s.Kubectl(t, "delete", "pod", "-n", ns, "shards-1", patience.Timeout)
	s.Kubectl(t, "rollout", "status", "-n", ns, "statefulset/shards", patience.Timeout)
	s.awaitAnswer(t, ns, "shards-1")
	if now := s.read(t, ns, "service/shards-1", ".spec.clusterIP"); now != addresses["shards-1"] {
		t.Errorf("address of the Service of a Pod that was deleted: got %s, want still %s", now, addresses["shards-1"])
	}

	// The engine and the hook are killed. What changes meanwhile is done afterwards.
	s.Kubectl(t, "delete", "pod", "-n", "service-per-pod", "--selector=app=service-per-pod", "--wait=false")
	s.Kubectl(t, "delete", "pod", "-n", systemNamespace, s.leader(t, engine), "--grace-period=0", "--force")
	s.Kubectl(t, "scale", "-n", ns, "statefulset/shards", "--replicas=3")
	s.Kubectl(t, "rollout", "status", "-n", ns, "statefulset/shards", patience.Timeout)
	s.awaitAnswer(t, ns, "shards-2")

	s.Kubectl(t, "annotate", "-n", ns, "statefulset/shards", "service-per-pod.example.com/ports-")
	eventually(t, "the Services of a StatefulSet that opts out are deleted, and it loses the finalizer", patience.Limit, func() bool {
		return s.Kubectl(t, "get", "services", "-n", ns, "-o", "name") == "" && s.read(t, ns, "statefulset/shards", ".metadata.finalizers") == ""
	})
	s.Kubectl(t, "rollout", "status", "-n", systemNamespace, "deployment/"+engine, patience.Timeout)
}

// awaitAnswer waits until the Pod answers at the Service of its name.
func (s *suite) awaitAnswer(t *testing.T, ns, pod string) {
	t.Helper()
	eventually(t, "there is a Service with an endpoint for "+pod, patience.Limit, func() bool {
		return s.Kubectl(t, "get", "endpointslices", "-n", ns, "--selector=kubernetes.io/service-name="+pod, "-o",
			"jsonpath={.items[*].endpoints[*].targetRef.name}") == pod
	})
	if code, body := s.get(t, ns, "default", "http://"+pod+"/"); code != "200" || body != "I am "+pod+"\n" {
		t.Errorf("answer of http://%s: got %s %q, want that of the Pod", pod, code, body)
	}
}

// testRelatedObjects follows the guides with the samples that have a customize hook: in Python, and in Node.js.
func (s *suite) testRelatedObjects(t *testing.T) {
	t.Run("Secret", func(t *testing.T) {
		s.loadSampleImages(t)
		s.deploySample(t, decoratorSamples+"secretmirror.yaml", "secretmirror/secretmirror", "dec/secretmirror")
		source, target := s.Namespace(t), s.Namespace(t)
		s.Kubectl(t, "create", "secret", "generic", "wildcard", "-n", source, "--from-literal=tls.key=first")
		s.Kubectl(t, "annotate", "namespace", target, "secretmirror.example.com/from="+source+"/wildcard")
		s.awaitCopy(t, target, "secret/wildcard", `{.data.tls\.key}`, "Zmlyc3Q=")
		s.Kubectl(t, "patch", "secret", "wildcard", "-n", source, "--patch", `{"stringData": {"tls.key": "second"}}`)
		s.awaitCopy(t, target, "secret/wildcard", `{.data.tls\.key}`, "c2Vjb25k")
		s.Kubectl(t, "annotate", "namespace", target, "secretmirror.example.com/from-")
		s.awaitCopy(t, target, "secret/wildcard", `{.data.tls\.key}`, "")
	})
	t.Run("ConfigMap", func(t *testing.T) {
		s.loadRoot(t, "node", v1.Config{}, "node:22")
		const name = "configmappropagation-controller"
		s.deploySample(t, compositeSamples+"configmappropagation.yaml", "configmappropagation/"+name, "cc/"+name)
		source, red, blue := s.Namespace(t), s.Namespace(t), s.Namespace(t)
		s.Kubectl(t, "create", "configmap", "settings", "-n", source, "--from-literal=color=blue")
		s.apply(t, `
apiVersion: example.com/v1
kind: ConfigMapPropagation
metadata: {name: settings}
spec:
  source: {namespace: SOURCE, name: settings}
  namespaceSelector: {matchLabels: {settings: SOURCE}}
`, "SOURCE", source)
		for _, namespace := range []string{red, blue} {
			s.Kubectl(t, "label", "namespace", namespace, "settings="+source)
			s.awaitCopy(t, namespace, "configmap/settings", "{.data.color}", "blue")
		}
		eventually(t, "the status has the number of copies", patience.Limit, func() bool {
			return s.read(t, "", "configmappropagation/settings", ".status.copies") == "2"
		})
		s.Kubectl(t, "patch", "configmap", "settings", "-n", source, "--patch", `{"data": {"color": "green"}}`)
		for _, namespace := range []string{red, blue} {
			s.awaitCopy(t, namespace, "configmap/settings", "{.data.color}", "green")
		}
		s.Kubectl(t, "label", "namespace", red, "settings-")
		s.awaitCopy(t, red, "configmap/settings", "{.data.color}", "")
		s.Kubectl(t, "delete", "configmappropagation/settings", patience.Timeout)
		s.awaitCopy(t, blue, "configmap/settings", "{.data.color}", "")
	})
}

// awaitCopy waits until a field of an object has the value, or until there is no such object if the value is "".
func (s *suite) awaitCopy(t *testing.T, namespace, object, path, value string) {
	t.Helper()
	eventually(t, object+" in "+namespace+" has the value "+value, patience.Limit, func() bool {
		return s.Kubectl(t, "get", object, "-n", namespace, "--ignore-not-found", "-o", "jsonpath="+path) == value
	})
}
