// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
)

// deploySample installs a file of manifests/samples/compositecontroller as a user does, except that the hook runs here: this interpreter
// runs the code in its ConfigMap, and the CompositeController calls it at that address. Types and roles are installed unchanged.
func (e *engineEnv) deploySample(file, interpreter string) {
	e.Helper()
	runtime, err := exec.LookPath(interpreter)
	if err != nil {
		e.Skipf("%s is not installed: the hook of %s cannot be run here", interpreter, file)
	}
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "samples", "compositecontroller", file))
	if err != nil {
		e.Fatal(err)
	}
	address := freeAddress(e.T)
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			e.Fatal(err)
		}
		switch o.GetKind() {
		case "CustomResourceDefinition", "ClusterRole":
			e.applySample(o)
		case "ConfigMap":
			data, _, _ := unstructured.NestedStringMap(o.Object, "data")
			for name, code := range data {
				e.runHook(runtime, name, code, address)
			}
		case "CompositeController":
			// It is created last. Only its URL and the label for the test's engine are changed.
			defer e.applySample(withHooksAt(o, address, e.servedBy))
		}
	}
}

// withHooksAt makes a CompositeController call its hooks at the address. Their paths stay the same.
func withHooksAt(cc *unstructured.Unstructured, address, servedBy string) *unstructured.Unstructured {
	cc.SetLabels(map[string]string{engineTest: servedBy})
	hooks, _, _ := unstructured.NestedMap(cc.Object, "spec", "hooks")
	for _, hook := range hooks {
		webhook := hook.(map[string]any)["webhook"].(map[string]any)
		path, _ := webhook["path"].(string)
		if url, _ := webhook["url"].(string); url != "" {
			path = url[strings.LastIndex(url, "/"):]
		}
		delete(webhook, "service")
		webhook["url"] = "http://" + address + path
	}
	cc.Object["spec"].(map[string]any)["hooks"] = hooks
	return cc
}

func (e *engineEnv) applySample(o *unstructured.Unstructured) {
	e.Helper()
	kind := kindOf(o)
	if _, err := e.at(kind).Create(e.Context(), o, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.cleanUp(kind, o.GetName())
}

// freeAddress returns an address on loopback that no process listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// runHook runs the code of a hook until the test ends. The hook listens at the address instead of port 8080.
func (e *engineEnv) runHook(interpreter, name, code, address string) {
	e.Helper()
	_, port, _ := strings.Cut(address, ":")
	moved := strings.NewReplacer(`("", 8080)`, `("127.0.0.1", `+port+`)`, ".listen(8080)", ".listen("+port+", '127.0.0.1')").Replace(code)
	if moved == code {
		e.Fatalf("%s does not listen on port 8080 as its Service says", name)
	}
	file := filepath.Join(e.TempDir(), name)
	if err := os.WriteFile(file, []byte(moved), 0o600); err != nil {
		e.Fatal(err)
	}
	output := &logBuffer{}
	command := exec.Command(interpreter, file)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
		if e.Failed() {
			e.Logf("output of %s:\n%s", name, output)
		}
	})
	e.eventually(func() string {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return fmt.Sprintf("the hook does not listen: %v; its output:\n%s", err, output)
		}
		_ = connection.Close()
		return ""
	})
}

// forSample returns an environment with an engine for this namespace alone, because the kinds of the samples are cluster-wide.
func forSample(t *testing.T) *engineEnv {
	e := newEngineEnv(t)
	e.run(&faultproxy.Journal{}, func(options *manager.Options) { options.Namespace = e.namespace })
	return e
}

func TestCompositeSamplePython(t *testing.T) {
	t.Parallel()
	e := forSample(t)
	e.deploySample("hello.yaml", "python3")
	e.awaitReasonOf("hello-controller", "Serving")
	parent := e.put("{apiVersion: example.com/v1, kind: HelloWorld, metadata: {name: you}, spec: {who: you}}")
	greets := func(who string) func(*unstructured.Unstructured) string {
		return func(o *unstructured.Unstructured) string {
			if pod := typed[corev1.Pod](t, o); pod.Spec.Containers[0].Command[1] != "Hello, "+who+"!" {
				return fmt.Sprintf("command of the Pod: got %v, want it to greet %s", pod.Spec.Containers[0].Command, who)
			}
			return ""
		}
	}
	first := e.awaitChild("Pod", "you", greets("you"), ownedBy(parent))
	e.awaitChild("HelloWorld.example.com/v1", "you", has(1, "status", "pods"))
	e.change("HelloWorld.example.com/v1", "you", "{spec: {who: all}}")
	second := e.awaitChild("Pod", "you", greets("all"))
	if first.GetUID() == second.GetUID() {
		t.Error("the Pod was not created again")
	}
	e.remove("Pod", "you")
	e.awaitChild("Pod", "you", greets("all"), otherThan(second.GetUID()))
	e.remove("HelloWorld.example.com/v1", "you")
	e.awaitGone("Pod", "you")
}

// otherThan checks that an object has another UID.
func otherThan(uid types.UID) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		if o.GetUID() == uid {
			return o.GetName() + " was not created again"
		}
		return ""
	}
}

func TestCompositeSampleNode(t *testing.T) {
	t.Parallel()
	e := forSample(t)
	e.deploySample("sharedconfig.yaml", "node")
	e.awaitReasonOf("sharedconfig-controller", "Serving")
	const kind = "SharedConfig.example.com/v1"
	parent := e.put("{apiVersion: example.com/v1, kind: SharedConfig, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}}, data: {a: '1', b: '2'}}}")
	first := e.awaitChild("ConfigMap", "a-copy", has(map[string]any{"a": "1", "b": "2"}, "data"), ownedBy(parent))
	e.awaitChild(kind, "a", has(1, "status", "copies"))
	e.change(kind, "a", "{spec: {data: {a: null, c: '3'}}}")
	second := e.awaitChild("ConfigMap", "a-copy", has(map[string]any{"b": "2", "c": "3"}, "data"))
	if first.GetUID() != second.GetUID() {
		t.Error("the copy was created again")
	}
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: stray, labels: {app: a}}}") // is adopted, but not wanted
	e.awaitGone("ConfigMap", "stray")
	e.remove(kind, "a")
	e.awaitGone(kind, "a")
	if e.look("ConfigMap", "a-copy") != nil {
		t.Error("the SharedConfig was deleted before its copy")
	}
}

// The test is not parallel, because other tests run the built-in controller of the kind.
func TestCompositeSampleImmortalContainer(t *testing.T) {
	e := forSample(t)
	e.grantEngine(rightsOnParents("immortalcontainers.flugel.it", "immortalcontainers")...)
	e.deploySample("immortalcontainer-hook.yaml", "python3")
	e.awaitReasonOf("immortalcontainer-controller", "Serving")
	const kind = "ImmortalContainer.immortalcontainers.flugel.it/v1alpha1"
	parent := e.put("{apiVersion: immortalcontainers.flugel.it/v1alpha1, kind: ImmortalContainer, metadata: {name: web}, spec: {image: nginx}}")
	running := func(starts int) *unstructured.Unstructured {
		t.Helper()
		pod := e.awaitChild("Pod", "web-immortalpod", ownedBy(parent), has("Running", "status", "phase"))
		e.awaitChild(kind, "web", has(starts, "status", "startTimes"), has("web-immortalpod", "status", "currentPod"), has("Running", "status", "podPhase"))
		return pod
	}
	first := running(1)
	e.remove("Pod", "web-immortalpod")
	e.awaitChild("Pod", "web-immortalpod", otherThan(first.GetUID()))
	second := running(2)
	// A Pod that has failed is replaced too.
	e.change("Pod", "web-immortalpod", "{status: {phase: Failed}}", "status")
	e.awaitChild("Pod", "web-immortalpod", otherThan(second.GetUID()))
	running(3)
	e.remove(kind, "web")
	e.awaitGone("Pod", "web-immortalpod")
}
