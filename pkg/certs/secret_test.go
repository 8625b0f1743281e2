// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsStoredIsReadBack(t *testing.T) {
	f := recordedRotation(t)
	secret := f.secret()
	state, err := Decode(secret)
	if err != nil || len(state.Problems) > 0 {
		t.Fatal(err, state.Problems)
	}
	again, err := Store(secret, secret.Namespace, secret.Name, state)
	if err != nil || again != nil {
		t.Errorf("storing what was read writes %v (%v)", again, err)
	}
	f.State = state
	if plan := Decide(f.pass(DefaultLifetimes.wait()).Observed); !cmp.Equal(kinds(plan), []string{"IssueServing", "ForgetKey"}) {
		t.Errorf("a process that is restarted does not go on with the rotation: %v", plan.Steps)
	}
}

func TestASecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	ours := settled(t).secret()
	tests := map[string]struct {
		change  func(*corev1.Secret)
		foreign bool
	}{
		"without our label":                         {func(s *corev1.Secret) { s.Labels = nil }, true},
		"of somebody else's label":                  {func(s *corev1.Secret) { s.Labels[LabelManagedBy] = "cert-manager" }, true},
		"of another type":                           {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, true},
		"without a label, but empty, made for us":   {func(s *corev1.Secret) { s.Labels, s.Data = nil, map[string][]byte{"tls.crt": {}, "tls.key": nil} }, false},
		"with our label, and with nothing readable": {func(s *corev1.Secret) { s.Data = map[string][]byte{"tls.crt": []byte("?")} }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			secret := ours.DeepCopy()
			test.change(secret)
			if _, err := Decode(secret); errors.Is(err, ErrForeign) != test.foreign {
				t.Errorf("error is %v, want foreign: %v", err, test.foreign)
			}
		})
	}
}

func TestDamageToTheSecretIsMendedWithoutABreakWhereThatIsPossible(t *testing.T) {
	other := settled(t).secret()
	tests := map[string]struct {
		damage  func(data map[string][]byte)
		want    []string
		problem string
	}{
		"no rotation.json":              {damage: func(d map[string][]byte) { delete(d, DataRotation) }},
		"rotation.json is not JSON":     {damage: func(d map[string][]byte) { d[DataRotation] = []byte("{") }, problem: DataRotation},
		"rotation.json of a newer form": {damage: func(d map[string][]byte) { d[DataRotation] = []byte(`{"more":1,"authorities":{"x":{"more":2}}}`) }},
		"no authority keys":             {damage: func(d map[string][]byte) { delete(d, DataAuthorityKeys) }, want: []string{"CreateAuthority"}},
		"keys of another authority":     {damage: func(d map[string][]byte) { d[DataAuthorityKeys] = other.Data[DataAuthorityKeys] }, want: []string{"CreateAuthority"}},
		"no key":                        {damage: func(d map[string][]byte) { d[corev1.TLSPrivateKeyKey] = nil }, want: []string{"IssueServing"}, problem: corev1.TLSPrivateKeyKey},
		"the key of another":            {damage: func(d map[string][]byte) { d[corev1.TLSPrivateKeyKey] = other.Data[corev1.TLSPrivateKeyKey] }, want: []string{"IssueServing"}, problem: corev1.TLSPrivateKeyKey},
		"a certificate cut short":       {damage: func(d map[string][]byte) { d[corev1.TLSCertKey] = d[corev1.TLSCertKey][:100] }, want: []string{"IssueServing"}, problem: corev1.TLSCertKey},
		"a bundle with a server in it": {damage: func(d map[string][]byte) {
			d[DataBundle] = append(bytes.Clone(d[DataBundle]), d[corev1.TLSCertKey]...)
		}, problem: DataBundle},
		"no bundle": {damage: func(d map[string][]byte) { delete(d, DataBundle) }, want: []string{"CreateAuthority", "IssueServing"}},
		"nothing":   {damage: func(d map[string][]byte) { clear(d) }, want: []string{"CreateAuthority", "IssueServing"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := settled(t)
			secret := f.secret()
			test.damage(secret.Data)
			var err error
			if f.State, err = Decode(secret); err != nil {
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

func TestAnAuthorityOfWhichNoRecordIsLeftIsTrustedUntilItExpires(t *testing.T) {
	f := retiring(t, 0)
	secret := f.secret()
	delete(secret.Data, DataRotation)
	state, err := Decode(secret)
	if err != nil {
		t.Fatal(err)
	}
	f.State = state
	if plan := Decide(f.Observed); len(plan.Steps) > 0 {
		t.Errorf("nobody knows what the old authority signed, and yet: %v", plan.Steps)
	}
	f.pass(f.State.Authorities[0].Certificate.NotAfter.Add(DefaultLifetimes.apart()).Sub(f.Now))
	if got := kinds(Decide(f.Observed)); !cmp.Equal(got[len(got)-1:], []string{"DropAuthority"}) {
		t.Errorf("an authority that has expired stays: %v", got)
	}
}

func TestStoringKeepsWhatOthersAdded(t *testing.T) {
	f := settled(t)
	existing := f.secret()
	existing.ResourceVersion, existing.Annotations, existing.Data["theirs"] = "42", map[string]string{"a": "b"}, []byte("kept")
	f.pass(60 * day).settle()
	secret, err := Store(existing, existing.Namespace, existing.Name, f.State)
	if err != nil || secret == nil {
		t.Fatal(secret, err)
	}
	if secret.ResourceVersion != "42" || secret.Annotations["a"] != "b" || string(secret.Data["theirs"]) != "kept" {
		t.Errorf("an update is not guarded, or takes away what is not ours: %v %v", secret.ResourceVersion, secret.Annotations)
	}
	if bytes.Equal(existing.Data[corev1.TLSCertKey], secret.Data[corev1.TLSCertKey]) {
		t.Error("the existing Secret was changed in place, or the new certificate is not in the update")
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
	whole := settled(f).secret()
	f.Add(whole.Data[corev1.TLSCertKey], whole.Data[corev1.TLSPrivateKeyKey], whole.Data[DataBundle], whole.Data[DataAuthorityKeys], whole.Data[DataRotation])
	whole = recordedRotation(f).secret()
	f.Add(whole.Data[corev1.TLSCertKey], whole.Data[corev1.TLSPrivateKeyKey], whole.Data[DataBundle], whole.Data[DataAuthorityKeys], whole.Data[DataRotation])
	f.Add([]byte("?"), []byte("-----BEGIN EC PRIVATE KEY-----\n"), []byte{}, []byte(nil), []byte("[]"))
	f.Fuzz(func(t *testing.T, certificate, key, bundle, keys, rotation []byte) {
		secret := &corev1.Secret{Type: corev1.SecretTypeTLS}
		secret.Labels = map[string]string{LabelManagedBy: ManagedBy}
		secret.Data = map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key, DataBundle: bundle, DataAuthorityKeys: keys, DataRotation: rotation}
		state, err := Decode(secret)
		if err != nil {
			t.Fatal(err)
		}
		clean, err := Store(secret, "default", "certs", state)
		if err != nil {
			t.Fatal(err)
		}
		if clean != nil {
			again, err := Decode(clean)
			if err != nil || len(again.Problems) > 0 {
				t.Fatalf("what we wrote has problems: %v %v", again.Problems, err)
			}
			if more, err := Store(clean, "default", "certs", again); more != nil || err != nil {
				t.Fatalf("what we wrote is written again: %v", err)
			}
		}
		fixture := newFixture(t)
		fixture.State = state
		fixture.settle()
	})
}
