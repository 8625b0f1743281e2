// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/certs"
)

func TestTheServersReadNoKeyThatSigns(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.start("")
		a.took()
		kept := a.kept()
		for _, key := range []string{certs.DataAuthorityKeys, certs.DataRotation} {
			if _, has := kept.Serving.Data[key]; has {
				t.Errorf("Secret %s has %s", serving, key)
			}
			if len(kept.Authority.Data[key]) == 0 {
				t.Errorf("Secret %s has no %s", authority, key)
			}
		}
		if string(kept.Serving.Data[certs.DataBundle]) != string(a.bundle()) {
			t.Error("who scrapes the servers cannot read what to trust")
		}
	}, ours())
}

func TestTutorialNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.serving = tutorial
		a.start("")
		requests, _ := a.took()
		expectMade(t, requests)
		a.must(a.verify(a.bundle()))
		kept := a.kept()
		if kept.Authority == nil || kept.Authority.Namespace != DefaultFarmNamespace {
			t.Error("the authority is elsewhere")
		}
		if diff := cmp.Diff([]string{
			"apiservices  millwright.dev/inject-ca=true", "secrets default metadata.name=farm-operator-serving", "secrets millwright-system metadata.name=farm-operator-ca",
		}, sorted(a.Watches())); diff != "" {
			t.Errorf("what is watched (-want +got):\n%s", diff)
		}
	}, apiServiceIn("default", farm, "farm-operator"))
}

func TestOperatorInAnotherNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.serving.Namespace, a.authority.Namespace = "operators", "operators"
		a.start("")
		requests, _ := a.took()
		expectMade(t, requests)
		a.must(a.verify(a.bundle()))
		if diff := cmp.Diff([]string{
			"apiservices  millwright.dev/inject-ca=true", "secrets operators metadata.name=farm-operator-ca", "secrets operators metadata.name=farm-operator-serving",
		}, sorted(a.Watches())); diff != "" {
			t.Errorf("what is watched (-want +got):\n%s", diff)
		}
	}, apiServiceIn("operators", farm, "farm-operator"))
}

func TestCertificateBeforeTheAPIServiceMoves(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.start("")
		requests, _ := a.took()
		if diff := cmp.Diff([]string{"create secrets", "create secrets"}, writes(requests)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		a.must(a.verify(a.kept().Serving.Data[certs.DataBundle])) // for who makes the APIService lead here and trust it in one write
		a.applyAPIService(ours())
		if requests, _ = a.took(); len(writes(requests)) != 1 {
			t.Errorf("there were %q", requests)
		}
		a.must(a.verify(a.bundle()))
	}, apiServiceIn("default", farm, "farm-operator"))
}

// formerSecret is that of the tutorial's namespace as it was kept when there was one for all.
func formerSecret(t *testing.T) *corev1.Secret {
	t.Helper()
	plan := certs.Plan{Steps: []certs.Step{certs.CreateAuthority{}, certs.IssueServing{}}}
	state, err := certs.Advance(certs.State{}, plan, certs.Issuing{
		Names: append(certs.ServiceNames("default", serviceName, clusterDomain), "localhost"), Lifetimes: certs.DefaultLifetimes, Now: time.Now(), Random: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := certs.Store(certs.Secrets{}, tutorial, tutorial, state)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(stored.Serving.Data, stored.Authority.Data)
	return stored.Serving
}

// trusting is the APIService of the tutorial with the bundle of the Secret.
func trusting(secret *corev1.Secret) *unstructured.Unstructured {
	object := apiServiceIn("default", farm, serviceName)
	object.Object["spec"].(map[string]any)["caBundle"] = base64.StdEncoding.EncodeToString(secret.Data[certs.DataBundle])
	return object
}

// TestOneSecretOfAnEarlierVersionIsTakenApart without a moment in which kube-apiserver trusts nothing of what is served.
func TestOneSecretOfAnEarlierVersionIsTakenApart(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.serving = tutorial
		former := formerSecret(t)
		a.applySecret(former)
		a.applyAPIService(trusting(former))
		a.start("")
		served := string(former.Data[corev1.TLSCertKey])
		a.took()

		kept := a.kept()
		if _, has := kept.Serving.Data[certs.DataAuthorityKeys]; has {
			t.Error("the keys are still where servers read them")
		}
		if string(kept.Serving.Data[corev1.TLSCertKey]) != served {
			t.Error("another certificate is served before anyone can trust it")
		}
		a.must(a.verify(a.bundle()))
		time.Sleep(time.Hour)
		a.took()
		if string(a.kept().Serving.Data[corev1.TLSCertKey]) == served {
			t.Error("what was signed by a key that servers could read is served on")
		}
		a.must(a.verify(a.bundle()))
	}, apiServiceIn("default", farm, "farm-operator"))
}

func TestCrashBetweenTheWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.Fail("create secrets", nil, apierrors.NewInternalError(errors.New("gone")))
		a.start("")
		time.Sleep(time.Minute)
		requests, events := a.took()
		a.must(a.verify(a.bundle()))
		state, err := certs.Decode(a.kept())
		if err != nil || len(state.Authorities) != 1 {
			t.Errorf("%d authorities are trusted (%v): %q", len(state.Authorities), err, requests)
		}
		if len(events) != 3 {
			t.Errorf("not every step is reported once: %q", events)
		}
	}, ours())
}
