// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/certs"
	"millwright.dev/pkg/testing/fakeapi"
)

const day = 24 * time.Hour

// The Secrets in the default namespace.
var (
	serving  = types.NamespacedName{Namespace: DefaultFarmNamespace, Name: servingName}
	tutorial = types.NamespacedName{Namespace: "default", Name: servingName}

	authority = types.NamespacedName{Namespace: DefaultFarmNamespace, Name: authorityName}
)

// apiServiceNamed leads to that Service in the default namespace.
func apiServiceNamed(name, service string) *unstructured.Unstructured {
	return apiServiceIn(DefaultFarmNamespace, name, service)
}

func apiServiceIn(namespace, name, service string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": name, "labels": map[string]any{LabelInject: "true"}},
		"spec":     map[string]any{"service": map[string]any{"namespace": namespace, "name": service}},
	}}
}

const farm = "v1alpha.farm.example.com"

func ours() *unstructured.Unstructured { return apiServiceNamed(farm, "farm-operator") }

func unlabelled() *unstructured.Unstructured {
	object := ours()
	object.SetLabels(nil)
	return object
}

// apiServer is the API server with APIServices and Secrets.
type apiServer struct {
	*fakeapi.Server
	t        *testing.T
	secrets  fakeapi.Objects[corev1.Secret]
	services fakeapi.Objects[unstructured.Unstructured]
	recorder *record.FakeRecorder

	lifetimes certs.Lifetimes // of what a controller issues
	serving   types.NamespacedName
	authority types.NamespacedName
	logs      func() string // of the controller that was started last
}

var (
	secrets     = fakeapi.Secrets
	apiServices = fakeapi.Resource{GroupVersionResource: APIServices, Kind: "APIService", ClusterScoped: true, Status: true, Admit: validate}
)

func validate(_, object *unstructured.Unstructured) error {
	spec := object.Object["spec"].(map[string]any)
	if spec["insecureSkipTLSVerify"] == true && spec["caBundle"] != nil {
		return apierrors.NewBadRequest("insecureSkipTLSVerify must not be true if caBundle is present")
	}
	return nil
}

func newAPIServer(t *testing.T, objects ...*unstructured.Unstructured) *apiServer {
	server := fakeapi.New(t, secrets, apiServices)
	a := &apiServer{
		Server: server, t: t, secrets: fakeapi.Of[corev1.Secret](server, secrets), services: fakeapi.Of[unstructured.Unstructured](server, apiServices),
		recorder: record.NewFakeRecorder(10_000), lifetimes: certs.DefaultLifetimes, serving: serving, authority: authority,
	}
	a.Log((*fakeapi.Request).String)
	for _, object := range objects {
		a.applyAPIService(object)
	}
	return a
}

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Error(err)
	}
}

// farmNamespace as the controller is given it: what is the default need not be given.
func (a *apiServer) farmNamespace() string {
	if a.serving == serving {
		return ""
	}
	return a.serving.Namespace
}

// operatorNamespace as the controller is given it: out of a cluster it is not known.
func (a *apiServer) operatorNamespace() string {
	if a.authority == authority {
		return ""
	}
	return a.authority.Namespace
}

// start runs a controller until the test ends.
func (a *apiServer) start(namespace string) {
	logger := ktesting.NewLogger(a.t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	a.logs = func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
	ctx, stop := context.WithCancel(klog.NewContext(a.t.Context(), logger))
	client := dynamic.NewForConfigOrDie(a.Config())
	var factories []dynamicinformer.DynamicSharedInformerFactory
	running, err := New(ctx, Config{
		KubeClient: kubernetes.NewForConfigOrDie(a.Config()), Dynamic: client, Recorder: a.recorder, Namespace: namespace, FarmNamespace: a.farmNamespace(),
		OperatorNamespace: a.operatorNamespace(),
		Select: func(resource schema.GroupVersionResource, namespace string, options func(*metav1.ListOptions)) cache.SharedIndexInformer {
			factories = append(factories, dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, options))
			return factories[len(factories)-1].ForResource(resource).Informer()
		},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	if c, ok := running.(*Controller); ok {
		c.lifetimes = a.lifetimes
	}
	for _, factory := range factories {
		factory.Start(ctx.Done())
	}
	ended := make(chan struct{})
	go func() { defer close(ended); running.Run(ctx, 4) }()
	a.t.Cleanup(func() {
		stop()
		<-ended
		for _, factory := range factories {
			factory.Shutdown()
		}
	})
}

// took returns what was asked for since it was last called, and the events, once all is quiet.
func (a *apiServer) took() (requests, events []string) {
	a.t.Helper()
	synctest.Wait()
	requests, _ = a.TakeLog()
	for {
		select {
		case event := <-a.recorder.Events:
			events = append(events, event)
		default:
			return requests, events
		}
	}
}

// writes among requests.
func writes(requests []string) []string {
	return slices.DeleteFunc(slices.Clone(requests), func(request string) bool { return strings.HasPrefix(request, "get ") })
}

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

// applyAPIService is what a user does.
func (a *apiServer) applyAPIService(object *unstructured.Unstructured) {
	a.t.Helper()
	if a.services.Get("", object.GetName()) == nil {
		a.services.Create(object)
		return
	}
	a.services.Update("", object.GetName(), func(stored *unstructured.Unstructured) {
		stored.Object["spec"] = object.Object["spec"]
		stored.SetLabels(object.GetLabels())
	})
}

// applySecret likewise.
func (a *apiServer) applySecret(object *corev1.Secret) { a.secrets.Create(object) }

func (a *apiServer) deleteSecret(name types.NamespacedName) {
	a.secrets.Remove(name.Namespace, name.Name)
}

func (a *apiServer) apiService(name string) *unstructured.Unstructured {
	return a.services.Get("", name)
}

// kept are the Secrets that there are.
func (a *apiServer) kept() certs.Secrets {
	return certs.Secrets{Authority: a.secret(a.authority), Serving: a.secret(a.serving)}
}

func (a *apiServer) secret(name types.NamespacedName) *corev1.Secret {
	return a.secrets.Get(name.Namespace, name.Name)
}

func (a *apiServer) bundle() []byte {
	text, _, _ := unstructured.NestedString(a.apiService(farm).Object, "spec", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(text)
	a.must(err)
	return bundle
}

// verify as kube-apiserver does what a server shows that has the Secret.
func (a *apiServer) verify(bundle []byte) error {
	data := a.kept().Serving.Data
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now(), DNSName: "farm-operator." + a.serving.Namespace + ".svc"})
	return err
}

// foreign is a Secret that another client manages.
func foreign(name types.NamespacedName) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: []byte("theirs")},
	}
}

// inBubble runs a test with a controller that works in all namespaces.
func inBubble(t *testing.T, test func(t *testing.T, a *apiServer), apiServices ...*unstructured.Unstructured) {
	synctest.Test(t, func(t *testing.T) { test(t, newAPIServer(t, apiServices...)) })
}
