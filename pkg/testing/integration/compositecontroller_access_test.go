// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/tls"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testca"
)

// secure replaces the test's hook by one that serves TLS with this configuration.
func (e *engineEnv) secure(config *tls.Config) {
	e.hook = newHook(e.T)
	e.hook.TLS = config
	e.hook.StartTLS()
	e.hook.Answers(oneConfigMap)
}

// letEngineRead gives the engine the Role that the guide describes, for all Secrets and ConfigMaps of the test's namespace.
func (e *engineEnv) letEngineRead() {
	e.Helper()
	e.grantEngineIn(e.namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"list", "watch"}})
}

// secret creates or replaces a Secret.
func (e *engineEnv) secret(name string, data map[string]string) {
	e.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	secrets := e.kube.CoreV1().Secrets(e.namespace)
	_, err := secrets.Get(e.Context(), name, metav1.GetOptions{})
	if err == nil {
		_, err = secrets.Update(e.Context(), secret, metav1.UpdateOptions{})
	} else {
		_, err = secrets.Create(e.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		e.Fatal(err)
	}
}

// withAccess returns the spec configMaps with more fields in its webhook.
func (e *engineEnv) withAccess(access string) string {
	return strings.Replace(configMaps, "url: HOOK/sync", "url: HOOK/sync, "+strings.ReplaceAll(access, "NAMESPACE", e.namespace), 1)
}

func TestCompositeHookCABundle(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, "ca")
	server := ca.Issue(t, "hook")
	inline := `caBundle: {inline: "` + strings.ReplaceAll(string(ca.PEM), "\n", `\n`) + `"}`
	for name, access := range map[string]string{
		"inline":                "caBundle",
		"in a Secret":           "caBundle: {secretRef: {name: ca, namespace: NAMESPACE}}",
		"in a Secret's own key": "caBundle: {secretRef: {name: ca, namespace: NAMESPACE, key: other.crt}}",
		"in a ConfigMap":        "caBundle: {configMapRef: {name: ca, namespace: NAMESPACE}}",
	} {
		t.Run(name, func(t *testing.T) {
			e := inSharedEngine(t)
			e.secure(&tls.Config{Certificates: []tls.Certificate{server.TLS}})
			e.letEngineRead()
			e.secret("ca", map[string]string{"ca.crt": string(ca.PEM), "other.crt": string(ca.PEM)})
			e.put(`{apiVersion: v1, kind: ConfigMap, metadata: {name: ca}, data: {ca.crt: "%s"}}`, strings.ReplaceAll(string(ca.PEM), "\n", `\n`))
			if access == "caBundle" {
				access = inline
			}
			e.serves(e.withAccess(access))
			e.parent("web")
			e.awaitChild("ConfigMap", "web")
			if call := e.hook.Calls()[0]; !call.tls {
				t.Error("the hook was called without TLS")
			}
		})
	}
	t.Run("unknown authority", func(t *testing.T) {
		e := inSharedEngine(t)
		e.secure(&tls.Config{Certificates: []tls.Certificate{server.TLS}})
		e.serves(configMaps)
		parent := e.parent("web")
		e.awaitEventOn(parent, "SyncError", "certificate signed by unknown authority")
		e.awaitReason("HookUnreachable")
		if len(e.hook.Calls()) > 0 {
			t.Error("the hook was called")
		}
	})
}

func TestCompositeHookClientCredentials(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, "ca")
	server, client := ca.Issue(t, "hook"), ca.Issue(t, "engine-of-test")
	type proof struct{ peer, authorization string }
	for name, test := range map[string]struct {
		access, endpoint string
		want             proof
	}{
		"client certificate":   {"clientTLS: {secretRef: {name: tls, namespace: NAMESPACE}}", "", proof{peer: "engine-of-test"}},
		"bearer token":         {"authorization: {secretRef: {name: token, namespace: NAMESPACE, key: token}}", "", proof{authorization: "Bearer s3cret"}},
		"token of custom type": {"authorization: {type: Custom, secretRef: {name: token, namespace: NAMESPACE, key: token}}", "", proof{authorization: "Custom s3cret"}},
		"basic auth":           {"basicAuth: {secretRef: {name: basic, namespace: NAMESPACE}}", "", proof{authorization: "Basic bWU6cGFzczp3b3Jk"}},
		"of the host":          {"", "authorization: {secretRef: {name: token, namespace: NAMESPACE, key: token}}", proof{authorization: "Bearer s3cret"}},
		"of the hook before the host": {"basicAuth: {secretRef: {name: basic, namespace: NAMESPACE}}",
			"authorization: {secretRef: {name: token, namespace: NAMESPACE, key: token}}", proof{authorization: "Basic bWU6cGFzczp3b3Jk"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := inSharedEngine(t)
			config := &tls.Config{Certificates: []tls.Certificate{server.TLS}, ClientCAs: ca.Pool()}
			if test.want.peer != "" {
				config.ClientAuth = tls.RequireAndVerifyClientCert
			}
			e.secure(config)
			e.letEngineRead()
			e.secret("ca", map[string]string{"ca.crt": string(ca.PEM)})
			e.secret("tls", map[string]string{"tls.crt": string(client.Cert), "tls.key": string(client.Key)})
			e.secret("token", map[string]string{"token": " s3cret\n"})
			e.secret("basic", map[string]string{"username": "me\n", "password": "pass:word\n"})
			trust := "caBundle: {secretRef: {name: ca, namespace: NAMESPACE}}"
			spec := configMaps
			if test.access != "" {
				spec = e.withAccess(trust + ", " + test.access)
			}
			if test.endpoint != "" {
				host := strings.TrimPrefix(e.hook.URL, "https://")
				endpoints := "\nendpointConfigs: [{host: example.com}, {host: '" + host + "', " + trust + ", " + test.endpoint + "}]\n"
				spec += strings.ReplaceAll(endpoints, "NAMESPACE", e.namespace)
			}
			e.serves(spec)
			e.parent("web")
			e.awaitChild("ConfigMap", "web")
			for _, call := range e.hook.Calls() {
				if got := (proof{call.peer, call.header.Get("Authorization")}); got != test.want {
					t.Errorf("credentials in the request: got %+v, want %+v", got, test.want)
				}
			}
		})
	}
}

func TestCompositeCredentialRotation(t *testing.T) {
	e := inSharedEngine(t)
	first, second := testca.New(t, "first"), testca.New(t, "second")
	var server atomic.Pointer[tls.Certificate]
	server.Store(&first.Issue(t, "hook").TLS)
	e.secure(&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*server.Load()}}, nil
	}})
	e.letEngineRead()
	e.secret("ca", map[string]string{"ca.crt": string(first.PEM)})
	e.secret("token", map[string]string{"token": "one"})
	e.serves(e.withAccess("caBundle: {secretRef: {name: ca, namespace: NAMESPACE}}, authorization: {secretRef: {name: token, namespace: NAMESPACE, key: token}}"))
	e.parent("web", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "web", has("me", "data", "who"))

	e.secret("token", map[string]string{"token": "two"})
	e.eventually(func() string {
		calls := e.hook.Calls()
		if got := calls[len(calls)-1].header.Get("Authorization"); got != "Bearer two" {
			e.change(widget, "web", "{metadata: {annotations: {at: '"+time.Now().Format(time.RFC3339Nano)+"'}}}")
			return "Authorization: got " + got + ", want Bearer two"
		}
		return ""
	})
	// The hook gets a certificate of a new authority. The engine learns of the authority a moment later.
	server.Store(&second.Issue(t, "hook").TLS)
	e.hook.CloseClientConnections()
	e.change(widget, "web", "{spec: {who: you}}")
	e.awaitReason("HookUnreachable")
	e.secret("ca", map[string]string{"ca.crt": string(second.PEM)})
	e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
	e.awaitReason(v1alpha1.ReasonServing)
}

// The test is not parallel: parallel tests of DecoratorControllers grant the engine all Secrets.
func TestCompositeMissingCredentials(t *testing.T) {
	e := newEngineEnv(t)
	e.run(&faultproxy.Journal{})
	requests[engine].expectForbidden(schema.GroupResource{Resource: "secrets"})
	e.hook.Answers(oneConfigMap)
	e.serves(e.withAccess("authorization: {secretRef: {name: token, namespace: NAMESPACE, key: token}}"))
	parent := e.parent("web")
	message := e.awaitReason("InvalidHookCredentials")
	for _, text := range []string{"Role", e.namespace, `resources: ["secrets"]`, `resourceNames: ["token"]`} {
		if !strings.Contains(message, text) {
			t.Errorf("message of the condition: got %q, want %s in it", message, text)
		}
	}
	e.awaitEventOn(parent, "SyncError", "secret")
	granted := time.Now()
	e.letEngineRead()
	e.eventually(func() string {
		if message := e.awaitReason("InvalidHookCredentials"); !strings.Contains(message, "does not exist") {
			return "message of the condition: " + message
		}
		return ""
	})
	e.secret("token", map[string]string{"other": "a"})
	e.eventually(func() string {
		if message := e.awaitReason("InvalidHookCredentials"); !strings.Contains(message, "token") || strings.Contains(message, "does not exist") {
			return "message of the condition: " + message
		}
		return ""
	})
	if len(e.hook.Calls()) > 0 {
		t.Error("the hook was called without its credentials")
	}
	e.secret("token", map[string]string{"token": "s3cret"})
	e.awaitChild("ConfigMap", "web")
	e.awaitReason(v1alpha1.ReasonServing)
	t.Logf("served %s after the right was granted", time.Since(granted).Round(time.Millisecond))
	if strings.Contains(message, "s3cret") {
		t.Error("the message of the condition has the token")
	}
}
