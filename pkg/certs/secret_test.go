// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsStoredIsReadBack(t *testing.T) {
	f := recordedRotation(t)
	secrets := f.secrets()
	state, err := Decode(secrets)
	if err != nil || len(state.Problems) > 0 {
		t.Fatal(err, state.Problems)
	}
	again, err := Store(secrets, authorityName, servingName, state)
	if err != nil || again != (Secrets{}) {
		t.Errorf("storing what was read writes %v (%v)", again, err)
	}
	f.State = state
	if plan := Decide(f.pass(DefaultLifetimes.wait()).Observed); !cmp.Equal(kinds(plan), []string{"IssueServing", "ForgetKey"}) {
		t.Errorf("a process that is restarted does not go on with the rotation: %v", plan.Steps)
	}
}

func TestForeignSecretIsLeftAlone(t *testing.T) {
	ours := settled(t).secrets()
	tests := map[string]struct {
		change  func(*corev1.Secret)
		foreign bool
	}{
		"without our label":                         {func(s *corev1.Secret) { s.Labels = nil }, true},
		"of a foreign label":                        {func(s *corev1.Secret) { s.Labels[LabelManagedBy] = "cert-manager" }, true},
		"of another type":                           {func(s *corev1.Secret) { s.Type = corev1.SecretTypeDockercfg }, true},
		"without a label, but empty, made for us":   {func(s *corev1.Secret) { s.Labels, s.Data = nil, map[string][]byte{"tls.crt": {}, "tls.key": nil} }, false},
		"with our label, and with nothing readable": {func(s *corev1.Secret) { s.Data = map[string][]byte{"tls.crt": []byte("?")} }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, of := range []func(*Secrets) **corev1.Secret{
				func(s *Secrets) **corev1.Secret { return &s.Authority },
				func(s *Secrets) **corev1.Secret { return &s.Serving },
			} {
				secrets := ours
				changed := of(&secrets)
				*changed = (*changed).DeepCopy()
				test.change(*changed)
				_, err := Decode(secrets)
				if errors.Is(err, ErrForeign) != test.foreign || test.foreign && !strings.Contains(err.Error(), (*changed).Namespace+"/"+(*changed).Name+":") {
					t.Errorf("error is %v, want foreign: %v", err, test.foreign)
				}
				if found := secrets.Foreign(); (found == *changed) != test.foreign {
					t.Errorf("the foreign one is %v", found)
				}
			}
		})
	}
}

func TestDamagedSecretIsRepaired(t *testing.T) {
	other := settled(t).secrets()
	type data = map[string][]byte
	tests := map[string]struct {
		damage  func(authority, serving data)
		want    []string
		problem string
	}{
		"no rotation.json":              {damage: func(a, _ data) { delete(a, DataRotation) }},
		"rotation.json is not JSON":     {damage: func(a, _ data) { a[DataRotation] = []byte("{") }, problem: DataRotation},
		"rotation.json of a newer form": {damage: func(a, _ data) { a[DataRotation] = []byte(`{"more":1,"authorities":{"x":{"more":2}}}`) }},
		"no authority keys":             {damage: func(a, _ data) { delete(a, DataAuthorityKeys) }, want: []string{"CreateAuthority"}},
		"keys of another authority": {damage: func(a, _ data) {
			a[DataAuthorityKeys] = other.Authority.Data[DataAuthorityKeys]
		}, want: []string{"CreateAuthority"}},
		"no key": {damage: func(_, s data) { s[corev1.TLSPrivateKeyKey] = nil }, want: []string{"IssueServing"}, problem: corev1.TLSPrivateKeyKey},
		"the key of another": {damage: func(_, s data) {
			s[corev1.TLSPrivateKeyKey] = other.Serving.Data[corev1.TLSPrivateKeyKey]
		}, want: []string{"IssueServing"}, problem: corev1.TLSPrivateKeyKey},
		"a certificate cut short": {damage: func(_, s data) {
			s[corev1.TLSCertKey] = s[corev1.TLSCertKey][:100]
		}, want: []string{"IssueServing"}, problem: corev1.TLSCertKey},
		"a bundle with a server in it": {damage: func(a, s data) {
			a[DataBundle] = append(bytes.Clone(a[DataBundle]), s[corev1.TLSCertKey]...)
		}, problem: DataBundle},
		"no bundle":                 {damage: func(a, _ data) { delete(a, DataBundle) }, want: []string{"CreateAuthority", "IssueServing"}},
		"another bundle to servers": {damage: func(_, s data) { s[DataBundle] = other.Serving.Data[DataBundle] }},
		"nothing of the authority":  {damage: func(a, _ data) { clear(a) }, want: []string{"CreateAuthority", "IssueServing"}},
		"nothing to serve":          {damage: func(_, s data) { clear(s) }, want: []string{"IssueServing"}},
		"nothing":                   {damage: func(a, s data) { clear(a); clear(s) }, want: []string{"CreateAuthority", "IssueServing"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := settled(t)
			secrets := f.secrets()
			test.damage(secrets.Authority.Data, secrets.Serving.Data)
			var err error
			if f.State, err = Decode(secrets); err != nil {
				t.Fatal(err)
			}
			if problems := strings.Join(f.State.Problems, "; "); (problems == "") != (test.problem == "") || !strings.Contains(problems, test.problem) {
				t.Errorf("problems %q, want one of %q", problems, test.problem)
			}
			if diff := cmp.Diff(test.want, kinds(Decide(f.Observed))); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			f.settle()
		})
	}
}

func TestUnrecordedAuthorityIsTrusted(t *testing.T) {
	f := retiring(t, 0)
	secrets := f.secrets()
	delete(secrets.Authority.Data, DataRotation)
	state, err := Decode(secrets)
	if err != nil {
		t.Fatal(err)
	}
	f.State = state
	if plan := Decide(f.Observed); len(plan.Steps) > 0 {
		t.Errorf("it is unknown what the old authority signed, and yet: %v", plan.Steps)
	}
	f.pass(f.State.Authorities[0].Certificate.NotAfter.Add(DefaultLifetimes.apart()).Sub(f.Now))
	if got := kinds(Decide(f.Observed)); !cmp.Equal(got[len(got)-1:], []string{"DropAuthority"}) {
		t.Errorf("an authority that has expired stays: %v", got)
	}
}

func TestStoringKeepsWhatOthersAdded(t *testing.T) {
	f := settled(t)
	existing := f.secrets()
	for _, secret := range []*corev1.Secret{existing.Authority, existing.Serving} {
		secret.ResourceVersion, secret.Annotations, secret.Data["theirs"] = "42", map[string]string{"a": "b"}, []byte("kept")
	}
	f.pass(60 * day).settle()
	wanted, err := Store(existing, authorityName, servingName, f.State)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []*corev1.Secret{wanted.Authority, wanted.Serving} {
		if secret.ResourceVersion != "42" || secret.Annotations["a"] != "b" || string(secret.Data["theirs"]) != "kept" {
			t.Errorf("an update is not guarded, or takes away what is not ours: %v %v", secret.ResourceVersion, secret.Annotations)
		}
	}
	if bytes.Equal(existing.Serving.Data[corev1.TLSCertKey], wanted.Serving.Data[corev1.TLSCertKey]) {
		t.Error("the existing Secret was changed in place, or the new certificate is not in the update")
	}
}

func TestWhoReadsWhatServersReadCannotSign(t *testing.T) {
	for name, f := range map[string]*fixture{"settled": settled(t), "during a rotation": recordedRotation(t)} {
		secrets := f.secrets()
		for key, value := range secrets.Serving.Data {
			if keys, _ := decodeKeys(value); len(keys) > 0 && key != corev1.TLSPrivateKeyKey {
				t.Errorf("%s: %s has a private key", name, key)
			}
		}
		if keys, _ := decodeKeys(secrets.Authority.Data[DataAuthorityKeys]); len(keys) == 0 {
			t.Errorf("%s: no authority can sign", name)
		}
		if _, serves := secrets.Authority.Data[corev1.TLSPrivateKeyKey]; serves {
			t.Errorf("%s: the key of the server is in both Secrets", name)
		}
		if !bytes.Equal(secrets.Serving.Data[DataBundle], f.State.Bundle()) {
			t.Errorf("%s: who reads the serving certificate is not shown what to trust", name)
		}
	}
}

// oneSecret is what was kept before there were two.
func oneSecret(f *fixture) *corev1.Secret {
	secrets := f.secrets()
	maps.Copy(secrets.Serving.Data, secrets.Authority.Data)
	return secrets.Serving
}

func TestLegacyAuthoritiesAreTrusted(t *testing.T) {
	f := settled(t)
	former := Secrets{Serving: oneSecret(f)}
	served := f.State.Serving.Certificate
	var err error
	if f.State, err = Decode(former); err != nil {
		t.Fatal(err)
	}
	if len(f.State.Authorities) != 1 || f.State.Authorities[0].Key.exists() {
		t.Fatalf("the authorities are %v", f.State.Authorities)
	}
	if diff := cmp.Diff([]string{"CreateAuthority"}, kinds(f.act())); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	wanted, err := Store(former, authorityName, servingName, f.State)
	if err != nil {
		t.Fatal(err)
	}
	if _, has := wanted.Serving.Data[DataAuthorityKeys]; has || wanted.Serving.Data[DataRotation] != nil {
		t.Error("the keys stay where servers read")
	}
	if f.State, err = Decode(wanted); err != nil || len(f.State.Authorities) != 2 || !f.State.Serving.Certificate.Equal(served) {
		t.Errorf("after it is stored there are %d authorities (%v), or another certificate is served", len(f.State.Authorities), err)
	}
	f.inject().settle().pass(DefaultLifetimes.wait()).settle()
	if issuer := f.State.issuer(); issuer == nil || !issuer.Key.exists() {
		t.Error("the authority of which the key could be read signs on")
	}
	revoked := f.secrets()
	revoked.Authority = nil
	if f.State, err = Decode(revoked); err != nil || len(f.State.Authorities) > 0 {
		t.Errorf("deleting the Secret of the authorities revokes nothing: %v (%v)", f.State.Authorities, err)
	}
}

func TestWhoLosesARaceLooksAgain(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for _, err := range []error{apierrors.NewAlreadyExists(resource, "certs"), apierrors.NewConflict(resource, "certs", errors.New("changed"))} {
		if !LostRace(err) {
			t.Errorf("%v is not taken as a lost race", err)
		}
	}
	if err := apierrors.NewForbidden(resource, "certs", errors.New("no")); LostRace(err) || LostRace(nil) {
		t.Error("what is no race is taken as a lost one")
	}
}

func FuzzDecode(f *testing.F) {
	for _, whole := range []Secrets{settled(f).secrets(), recordedRotation(f).secrets()} {
		f.Add(whole.Serving.Data[corev1.TLSCertKey], whole.Serving.Data[corev1.TLSPrivateKeyKey], whole.Authority.Data[DataBundle],
			whole.Authority.Data[DataAuthorityKeys], whole.Authority.Data[DataRotation], false)
	}
	f.Add([]byte("?"), []byte("-----BEGIN EC PRIVATE KEY-----\n"), []byte{}, []byte(nil), []byte("[]"), true)
	f.Fuzz(func(t *testing.T, certificate, key, bundle, keys, rotation []byte, inOne bool) {
		ours := map[string]string{LabelManagedBy: ManagedBy}
		secrets := Secrets{
			Authority: &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{DataBundle: bundle, DataAuthorityKeys: keys,
				DataRotation: rotation}},
			Serving: &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}},
		}
		secrets.Authority.Labels, secrets.Serving.Labels = ours, ours
		if inOne {
			maps.Copy(secrets.Serving.Data, secrets.Authority.Data)
			secrets.Authority = nil
		}
		state, err := Decode(secrets)
		if err != nil {
			t.Fatal(err)
		}
		clean, err := Store(secrets, authorityName, servingName, state)
		if err != nil {
			t.Fatal(err)
		}
		if clean.Authority == nil {
			clean.Authority = secrets.Authority
		}
		if clean.Serving == nil {
			clean.Serving = secrets.Serving
		}
		again, err := Decode(clean)
		if err != nil || len(again.Problems) > 0 {
			t.Fatalf("what we wrote has problems: %v %v", again.Problems, err)
		}
		if more, err := Store(clean, authorityName, servingName, again); more != (Secrets{}) || err != nil {
			t.Fatalf("what we wrote is written again: %v", err)
		}
		fixture := newFixture(t)
		fixture.State = state
		fixture.settle()
	})
}
