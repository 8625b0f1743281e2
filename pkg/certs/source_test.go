// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
)

var _ healthz.HealthChecker = &HealthCheck{}

// selfSigned is a pair for one name.
func selfSigned(t testing.TB, name string) (certificate, key []byte) {
	t.Helper()
	certificate, key, err := SelfSigned(Names{name}, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func update(t testing.TB, source *Source, certificate, key []byte) {
	t.Helper()
	if _, err := source.Update(certificate, key); err != nil {
		t.Fatal(err)
	}
}

// echo serves TLS connections, and echoes what it receives, until the test ends.
func echo(t *testing.T, config *tls.Config) (address string) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _, _ = io.Copy(connection, connection); _ = connection.Close() })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

func dial(t *testing.T, address string, bundle []byte) *tls.Conn {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: names[0]})
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func say(t *testing.T, connection net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, len(text))
	if _, err := io.ReadFull(connection, answer); err != nil || string(answer) != text {
		t.Fatalf("answer %q, want %q (%v)", answer, text, err)
	}
}

// rotateAuthority goes through a whole rotation.
func rotateAuthority(t *testing.T, serve func(secret *corev1.Secret), connect func(bundle []byte) *tls.Conn) {
	f := newFixture(t)
	f.Now = time.Now().Add(-245 * day)
	f.settle()
	for f.State.Serving.Certificate.NotAfter.Before(time.Now()) || len(f.State.Authorities) < 2 {
		f.pass(Decide(f.Observed).RequeueAfter).act()
	}
	oldBundle := encodeCertificate(f.State.issuer().Certificate)
	serve(f.secrets().Serving)
	open := connect(oldBundle)
	say(t, open, "before")
	f.inject().act()
	f.pass(f.Lifetimes.wait()).settle()
	bundle, leaf := f.State.Bundle(), f.State.Serving.Certificate
	if shown := connect(bundle).ConnectionState().PeerCertificates[0]; shown.Equal(leaf) {
		t.Fatal("the new certificate is shown before the server has taken it up")
	}
	serve(f.secrets().Serving)
	say(t, open, "after")
	for deadline := time.Now().Add(30 * time.Second); !connect(bundle).ConnectionState().PeerCertificates[0].Equal(leaf); {
		if time.Now().After(deadline) {
			t.Fatal("the old certificate is still shown after 30 s")
		}
	}
	say(t, open, "much later")
}

func TestConnectionsDuringRotation(t *testing.T) {
	source := NewSource("test")
	address := echo(t, &tls.Config{GetCertificate: source.GetCertificate})
	rotateAuthority(t, func(s *corev1.Secret) { update(t, source, s.Data["tls.crt"], s.Data["tls.key"]) },
		func(bundle []byte) *tls.Conn { return dial(t, address, bundle) })
}

func TestAPIServerLibraryReloads(t *testing.T) {
	source := NewSource("test")
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	controller := dynamiccertificates.NewDynamicServingCertificateController(base, nil, source, nil, nil)
	source.AddListener(controller)
	ctx, cancel := context.WithCancel(testContext(t))
	var running sync.WaitGroup
	running.Go(func() { controller.Run(1, ctx.Done()) })
	defer running.Wait()
	defer cancel()
	config := base.Clone()
	config.GetConfigForClient = controller.GetConfigForClient
	address := echo(t, config)
	first := true
	rotateAuthority(t, func(s *corev1.Secret) {
		update(t, source, s.Data["tls.crt"], s.Data["tls.key"])
		if first { // a server reads its certificate before it listens
			if err := waitUntilReady(controller); err != nil {
				t.Fatal(err)
			}
		}
		first = false
	}, func(bundle []byte) *tls.Conn { return dial(t, address, bundle) })
}

// waitUntilReady returns once the controller has a configuration to serve.
func waitUntilReady(controller *dynamiccertificates.DynamicServingCertificateController) (err error) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if _, err = controller.GetConfigForClient(&tls.ClientHelloInfo{ServerName: names[0]}); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

func TestMismatchedPairKeepsTheOldOne(t *testing.T) {
	source := NewSource("test")
	certificate, key := selfSigned(t, "a")
	update(t, source, certificate, key)
	_, other := selfSigned(t, "b")
	for name, pair := range map[string][2][]byte{"key of another": {certificate, other}, "nothing": {nil, nil}, "swapped": {key, certificate}} {
		_, err := source.Update(pair[0], pair[1])
		if err == nil || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: error %v", name, err)
		}
		if got, _ := source.CurrentCertKeyContent(); string(got) != string(certificate) {
			t.Errorf("%s: the certificate that was served is gone", name)
		}
	}
	if changed, err := source.Update(certificate, key); changed || err != nil {
		t.Errorf("the same pair is taken as a new one (%v)", err)
	}
}

func TestHealthOfCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := NewSource("test")
		check := source.HealthCheck(time.Hour)
		want := func(part string) {
			t.Helper()
			if err := check.Check(nil); (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("at %s: %v, want %q", time.Now(), err, part)
			}
		}
		want("no certificate yet")
		certificate, key, err := SelfSigned(Names{"a"}, time.Now().Add(time.Hour), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		update(t, source, certificate, key)
		want("not valid before")
		time.Sleep(time.Hour)
		want("")
		time.Sleep(selfSignedLifetime - time.Hour - time.Second)
		want("")
		time.Sleep(time.Second)
		want("expires at")
		time.Sleep(time.Hour)
		want("expired at")
	})
}

func TestFilesAreLoadedOnceBothExist(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(path string, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		source := NewSource("test")
		ctx, cancel := context.WithCancel(testContext(t))
		var running sync.WaitGroup
		running.Go(func() { source.RunFiles(ctx, certFile, keyFile) })
		shows := func(want []byte, when string) {
			t.Helper()
			time.Sleep(pollInterval)
			synctest.Wait()
			if got, _ := source.CurrentCertKeyContent(); string(got) != string(want) {
				t.Errorf("%s: not the certificate that was to be served", when)
			}
		}
		shows(nil, "no files")
		first, key := selfSigned(t, "a")
		write(certFile, first)
		shows(nil, "no key yet")
		write(keyFile, key)
		shows(first, "both files")
		second, key := selfSigned(t, "b")
		write(certFile, second)
		shows(first, "the key is of the old certificate")
		write(keyFile, key)
		shows(second, "both are new")
		if err := os.Remove(keyFile); err != nil {
			t.Fatal(err)
		}
		shows(second, "the key file is gone")
		cancel()
		running.Wait()
	})
}
