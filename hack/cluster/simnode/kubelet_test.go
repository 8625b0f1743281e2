package simnode

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/exec"

	"millwright.dev/hack/cluster/patience"
	"millwright.dev/hack/cluster/pki"
)

// newServing returns how nodes serve, and the credentials of kube-apiserver.
func newServing(t *testing.T) (Serving, *rest.Config) {
	t.Helper()
	dir := t.TempDir()
	p, err := pki.Load(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	// apiserver is valid for 127.0.0.1 too.
	serving := Serving{Certificate: p.Certificate("apiserver"), Key: p.Key("apiserver"), ClientCA: p.Certificate("ca"), Client: pki.KubeletClientName}
	other := filepath.Join(dir, "other")
	if err := p.Issue(other, certutil.Config{CommonName: "other", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Fatal(err)
	}
	return serving, &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAFile: serving.ClientCA, CertFile: p.Certificate(pki.KubeletClient), KeyFile: p.Key(pki.KubeletClient),
	}}
}

// kubelet is the API of a kubelet of simulated nodes, with one Pod, which runs.
type kubelet struct {
	*testing.T
	client *fake.Clientset
	config *rest.Config
	host   string
}

func startKubelet(t *testing.T, annotations map[string]string) *kubelet {
	t.Helper()
	serving, config := newServing(t)
	pod := boundPod("web", nodeName(1))
	pod.Namespace, pod.Annotations = "shop", annotations
	k := &kubelet{T: t, client: fake.NewClientset(pod), config: config}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Config{Client: k.client, Nodes: 1, Version: "v2.0.0", Serving: serving}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	patience.Eventually(t, "the Pod runs", func() bool { return len(k.pod().Status.ContainerStatuses) > 0 })
	node, err := k.client.CoreV1().Nodes().Get(t.Context(), nodeName(1), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.host = "https://" + node.Status.Addresses[0].Address + ":" + strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
	return k
}

func (k *kubelet) pod() *corev1.Pod {
	k.Helper()
	pod, err := k.client.CoreV1().Pods("shop").Get(k.Context(), "web", metav1.GetOptions{})
	if err != nil {
		k.Fatal(err)
	}
	return pod
}

func (k *kubelet) annotate(name, value string) {
	k.Helper()
	pod := k.pod().DeepCopy()
	pod.Annotations[name] = value
	if _, err := k.client.CoreV1().Pods("shop").Update(k.Context(), pod, metav1.UpdateOptions{}); err != nil {
		k.Fatal(err)
	}
}

func (k *kubelet) get(path string) (code int, text string) {
	k.Helper()
	client, err := rest.HTTPClientFor(k.config)
	if err != nil {
		k.Fatal(err)
	}
	resp, err := client.Get(k.host + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		k.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (k *kubelet) exec(command ...string) (stdout, stderr string, err error) {
	k.Helper()
	u, err := url.Parse(k.host + "/exec/shop/web/main?" + url.Values{"command": command, "output": {"1"}, "error": {"1"}}.Encode())
	if err != nil {
		k.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(k.config, http.MethodPost, u)
	if err != nil {
		k.Fatal(err)
	}
	var out, errOut bytes.Buffer
	err = executor.StreamWithContext(k.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut})
	return out.String(), errOut.String(), err
}

const mainLog = "/containerLogs/shop/web/main"

func TestLogsAreThoseOfTheAnnotation(t *testing.T) {
	k := startKubelet(t, map[string]string{LogAnnotation: "one\ntwo\nthree\n"})
	for query, want := range map[string]string{
		"":                               "one\ntwo\nthree\n",
		"tailLines=1":                    "three\n",
		"tailLines=0":                    "",
		"tailLines=9":                    "one\ntwo\nthree\n",
		"limitBytes=5":                   "one\nt",
		"stream=Stderr":                  "",
		"sinceTime=2999-01-01T00:00:00Z": "",
		"sinceSeconds=1000":              "one\ntwo\nthree\n",
	} {
		if code, text := k.get(mainLog + "?" + query); code != http.StatusOK || text != want {
			t.Errorf("log with %q: %d %q, want %q", query, code, text, want)
		}
	}
	_, stamped := k.get(mainLog + "?timestamps=true&tailLines=1")
	at, text, _ := strings.Cut(stamped, " ")
	if printed, err := time.Parse(time.RFC3339Nano, at); err != nil || time.Since(printed) > time.Minute || text != "three\n" {
		t.Errorf("log with timestamps: %q", stamped)
	}
}

func TestALogThatIsFollowedEndsWithItsContainer(t *testing.T) {
	k := startKubelet(t, map[string]string{LogAnnotation: "started\n"})
	k.annotate(ContainerLogPrefix+"main", "a\nb\nc\nd\n")
	followed := make(chan string, 1)
	go func() {
		_, text := k.get(mainLog + "?follow=true")
		followed <- text
	}()
	select {
	case text := <-followed:
		t.Fatalf("the log ended before its container, with %q", text)
	case <-time.After(3 * followInterval):
	}
	k.annotate(ExitCodeAnnotation, "0")
	select {
	case text := <-followed:
		if text != "a\nb\nc\nd\n" {
			t.Errorf("the log is %q", text)
		}
	case <-time.After(patience.Limit):
		t.Error("the log did not end with its container")
	}
	if code, text := k.get(mainLog + "?previous=true"); code != http.StatusOK || text != "a\nb\nc\nd\n" {
		t.Errorf("log of the previous container: %d %q", code, text)
	}
}

func TestExecAnswersByCommand(t *testing.T) {
	k := startKubelet(t, map[string]string{ExecAnnotation: `
- {command: pg_dump shop, stdout: "dumped\n", stderr: "a warning\n"}
- {command: fails, stderr: "it failed\n", exitCode: 3}
`})
	if stdout, stderr, err := k.exec("sh", "-c", "pg_dump shop >/dump"); err != nil || stdout != "dumped\n" || stderr != "a warning\n" {
		t.Errorf("pg_dump: %q, %q, %v", stdout, stderr, err)
	}
	var code exec.CodeExitError
	if _, stderr, err := k.exec("fails"); !errors.As(err, &code) || code.Code != 3 || stderr != "it failed\n" {
		t.Errorf("a command that fails: %q, %v", stderr, err)
	}
	if _, stderr, err := k.exec("other"); !errors.As(err, &code) || code.Code != notFoundCode || !strings.Contains(stderr, "other: the annotation "+ExecAnnotation) {
		t.Errorf("a command without an answer: %q, %v", stderr, err)
	}
	k.annotate(ContainerExecPrefix+"main", "[{stdout: any}]")
	if stdout, _, err := k.exec("other"); err != nil || stdout != "any" {
		t.Errorf("any command: %q, %v", stdout, err)
	}
}

func TestWhatIsNotSimulatedIsRefusedInWords(t *testing.T) {
	k := startKubelet(t, map[string]string{})
	for path, want := range map[string]string{
		mainLog:                 "kubectl annotate pod -n shop web " + LogAnnotation,
		"/exec/shop/web/main":   "kubectl annotate pod -n shop web " + ExecAnnotation,
		"/attach/shop/web/main": "there is no attach",
		"/portForward/shop/web": "there is no port-forward",
		"/containerLogs/shop/web/main?tailLines=x": "options of the log",
	} {
		if code, text := k.get(path); code != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want 400 and %q", path, code, text, want)
		}
	}
	if code, text := k.get("/containerLogs/shop/other/main"); code != http.StatusNotFound || !strings.Contains(text, `pods "other" not found`) {
		t.Errorf("the log of a missing Pod: %d %s", code, text)
	}
	if _, _, err := k.exec("ls"); err == nil || !strings.Contains(err.Error(), "runs no containers") {
		t.Errorf("a command in a Pod without an annotation: %v", err)
	}
	k.annotate(ExecAnnotation, "no list")
	if code, text := k.get(mainLog); code != http.StatusBadRequest || !strings.Contains(text, "annotation "+ExecAnnotation+": not a YAML list") {
		t.Errorf("the log of a Pod with an invalid annotation: %d %s", code, text)
	}
}

func TestOnlyKubeAPIServerIsServed(t *testing.T) {
	k := startKubelet(t, map[string]string{LogAnnotation: "secret"})
	credentials := k.config.TLSClientConfig
	other := filepath.Join(filepath.Dir(credentials.CertFile), "other")
	k.config.CertFile, k.config.KeyFile = other+".crt", other+".key"
	if code, text := k.get(mainLog); code != http.StatusForbidden || strings.Contains(text, "secret") {
		t.Errorf("another client of the authority: %d %s", code, text)
	}
	k.config.CertFile, k.config.KeyFile = "", ""
	if code, text := k.get(mainLog); code != 0 || !strings.Contains(text, "tls") {
		t.Errorf("a client without a certificate: %d %s", code, text)
	}
}
