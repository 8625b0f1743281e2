package pki

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
)

func load(t *testing.T, dir string, now time.Time) *PKI {
	t.Helper()
	p, err := Load(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve runs an HTTPS server with the API server's certificate which answers with who the client is.
func serve(t *testing.T, p *PKI) (url string) {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(p.Certificate("apiserver"), p.Key("apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := certutil.NewPool(p.Certificate("ca"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		_, _ = w.Write([]byte(subject.CommonName + " " + strings.Join(subject.Organization, ",")))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// ask returns what the server answers to the user of the kubeconfig.
func ask(t *testing.T, kubeconfig, url string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestKubeconfigAuthenticatesItsUser(t *testing.T) {
	p := load(t, t.TempDir(), time.Now())
	url := serve(t, p)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := p.WriteKubeconfig(kubeconfig, url, User{Name: "admin", Groups: []string{"system:masters"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := ask(t, kubeconfig, url), "admin system:masters"; got != want {
		t.Errorf("the server sees %q, want %q", got, want)
	}
}

func TestServerCertificateAddresses(t *testing.T) {
	p, err := Load(t.TempDir(), time.Now(), net.IPv4(10, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	issued := filepath.Join(t.TempDir(), "kubelet")
	err = p.Issue(issued, certutil.Config{
		CommonName: "kubelet", AltNames: certutil.AltNames{IPs: []net.IP{net.IPv4(10, 0, 0, 2)}}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := certutil.NewPool(p.Certificate("ca"))
	if err != nil {
		t.Fatal(err)
	}
	for path, names := range map[string][]string{
		p.Certificate("apiserver"): {"127.0.0.1", "10.0.0.1", "kubernetes.default.svc"},
		issued + ".crt":            {"10.0.0.2"},
	} {
		certificates, err := certutil.CertsFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := certificates[0].Verify(x509.VerifyOptions{DNSName: name, Roots: authority}); err != nil {
				t.Errorf("%s as %s: %v", path, name, err)
			}
		}
	}
	if _, err := tls.LoadX509KeyPair(issued+".crt", issued+".key"); err != nil {
		t.Error(err)
	}
}

func TestKubeconfigsOfARunBeforeGoOnWorking(t *testing.T) {
	dir, kubeconfig := t.TempDir(), filepath.Join(t.TempDir(), "kubeconfig")
	first := load(t, dir, time.Now())
	if err := first.WriteKubeconfig(kubeconfig, "https://127.0.0.1:1", User{Name: "admin"}); err != nil {
		t.Fatal(err)
	}
	tokens := read(t, first.ServiceAccountKey())

	second := load(t, dir, time.Now())
	if got := ask(t, kubeconfig, serve(t, second)); got != "admin " {
		t.Errorf("the server sees %q, want admin", got)
	}
	if read(t, second.ServiceAccountKey()) != tokens {
		t.Error("the key of ServiceAccount tokens is a new one")
	}
}

func TestCertificatesAreNeverOutOfDate(t *testing.T) {
	dir := t.TempDir()
	first := load(t, dir, time.Now())
	before := read(t, first.Certificate("ca"))
	for _, tc := range []struct {
		years    int
		keepsCAs bool
	}{{5, true}, {8, true}, {9, false}, {20, false}} {
		now := time.Now().AddDate(tc.years, 0, 0)
		p := load(t, dir, now)
		if kept := read(t, p.Certificate("ca")) == before; kept != tc.keepsCAs {
			t.Errorf("after %d years: authority kept: %v, want %v", tc.years, kept, tc.keepsCAs)
		}
		if tc.keepsCAs {
			verify(t, p, "apiserver", "ca", x509.ExtKeyUsageServerAuth, now.AddDate(0, 11, 0))
			verify(t, p, FrontProxyClient, "front-proxy-ca", x509.ExtKeyUsageClientAuth, now.AddDate(0, 11, 0))
		}
	}
}

func TestDamagedAuthority(t *testing.T) {
	for name, damage := range map[string]func(*PKI) error{
		"its key is missing":     func(p *PKI) error { return os.Remove(p.Key("ca")) },
		"its key is another one": func(p *PKI) error { return os.Rename(p.Key("front-proxy-ca"), p.Key("ca")) },
		"it is empty":            func(p *PKI) error { return os.WriteFile(p.Certificate("ca"), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := damage(load(t, dir, time.Now())); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir, time.Now()); err == nil || !strings.Contains(err.Error(), "remove "+dir) {
				t.Errorf("got error %v, want one that says what to remove", err)
			}
		})
	}
}

func TestIncompleteAuthorityIsReplaced(t *testing.T) {
	dir := t.TempDir()
	p := load(t, dir, time.Now())
	if err := os.Remove(p.Certificate("ca")); err != nil {
		t.Fatal(err)
	}
	verify(t, load(t, dir, time.Now()), "apiserver", "ca", x509.ExtKeyUsageServerAuth, time.Now())
}

func TestKeysAreReadableByTheUserOnly(t *testing.T) {
	dir := t.TempDir()
	load(t, dir, time.Now())
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", entry.Name(), info.Mode())
		}
	}
}

func verify(t *testing.T, p *PKI, name, authority string, usage x509.ExtKeyUsage, at time.Time) {
	t.Helper()
	roots, err := certutil.NewPool(p.Certificate(authority))
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := certutil.CertsFromFile(p.Certificate(name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificates[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		t.Errorf("certificate %s at %v: %v", name, at, err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
