// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
)

// credentials are the Secrets of the tests, by name.
func credentialsNamed(t *testing.T, profile *v1alpha1.Profile) map[v1alpha1.ObjectReference]*corev1.Secret {
	t.Helper()
	data := func(keys ...string) map[string][]byte {
		values := map[string][]byte{}
		for _, key := range keys {
			values[key] = []byte("value of " + key)
		}
		return values
	}
	known := map[string]*corev1.Secret{
		"keys":      {Data: map[string][]byte{"id": []byte("AKIDEXAMPLE"), "key": []byte("sec<ret>&1")}},
		"aws":       {Type: "secrets.kanister.io/aws", Data: data("aws_access_key_id", "aws_secret_access_key")},
		"half":      {Type: "secrets.kanister.io/aws", Data: data("aws_access_key_id")},
		"gcp":       {Type: "secrets.kanister.io/gcp", Data: data("gcp_project_id", "service-account.json")},
		"filestore": {Type: "secrets.kanister.io/filestore"},
		"opaque":    {Type: corev1.SecretTypeOpaque},
	}
	secrets := map[v1alpha1.ObjectReference]*corev1.Secret{}
	for _, reference := range secretsOf(profile) {
		secret := known[reference.Name]
		secret.ObjectMeta = metav1.ObjectMeta{Name: reference.Name, Namespace: "ns"}
		secrets[reference] = secret
	}
	return secrets
}

func TestProfileJSON(t *testing.T) {
	profile := &v1alpha1.Profile{
		Location: v1alpha1.Location{Type: "s3Compliant", Bucket: "bkt", Endpoint: "https://s3.example.test:9000", Prefix: "pre/fix", Region: "eu-1"},
		Credential: v1alpha1.Credential{Type: "keyPair", KeyPair: &v1alpha1.KeyPair{
			IDField: "id", SecretField: "key", Secret: v1alpha1.ObjectReference{Name: "keys"},
		}},
		SkipSSLVerify: true,
	}
	params, err := profileOf(profile, credentialsNamed(t, profile))
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := blueprint.NewRenderer(blueprint.NewBudget(t.Context()), blueprint.Params{Profile: params, Time: noon.Format(time.RFC3339Nano)})
	if err != nil {
		t.Fatal(err)
	}
	texts, err := renderer.Texts("p", "command", map[string]string{"a": "{{ toJson .Profile }}"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Location":{"type":"s3Compliant","bucket":"bkt","endpoint":"https://s3.example.test:9000","prefix":"pre/fix","region":"eu-1"},` +
		`"Credential":{"Type":"keyPair","KeyPair":{"ID":"AKIDEXAMPLE","Secret":"sec\u003cret\u003e\u00261"},"Secret":null,"KopiaServerSecret":null},"SkipSSLVerify":true}`
	if got := texts["a"]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestIncompleteCredential(t *testing.T) {
	secret := func(name string) v1alpha1.Credential {
		return v1alpha1.Credential{Type: "secret", Secret: &v1alpha1.ObjectReference{Name: name}}
	}
	pair := func(id, key string) v1alpha1.Credential {
		return v1alpha1.Credential{Type: "keyPair", KeyPair: &v1alpha1.KeyPair{IDField: id, SecretField: key, Secret: v1alpha1.ObjectReference{Name: "keys"}}}
	}
	kopia := v1alpha1.Credential{Type: "kopia", KopiaServerSecret: &v1alpha1.KopiaServerSecret{
		Username: "me", UserPassphrase: &v1alpha1.KopiaServerSecretRef{Key: "id", Secret: &v1alpha1.ObjectReference{Name: "keys"}},
	}}
	badKopia := *kopia.DeepCopy()
	badKopia.KopiaServerSecret.TLSCert = &v1alpha1.KopiaServerSecretRef{Key: "none", Secret: &v1alpha1.ObjectReference{Name: "keys"}}
	for name, test := range map[string]struct {
		credential v1alpha1.Credential
		want       string
	}{
		"a Secret of a type":      {credential: secret("aws")},
		"one of several keys":     {credential: secret("gcp")},
		"a type without keys":     {credential: secret("filestore")},
		"a key pair":              {credential: pair("id", "key")},
		"a kopia user":            {credential: kopia},
		"no type":                 {want: `invalid credential.type ""`},
		"an opaque Secret":        {credential: secret("opaque"), want: `the Secret ns/opaque has the type "Opaque": it must be one of secrets.kanister.io/aws,`},
		"a Secret without a key":  {credential: secret("half"), want: "the Secret ns/half of type secrets.kanister.io/aws has no key aws_secret_access_key"},
		"no such key of an id":    {credential: pair("none", "key"), want: `credential.keyPair.idField: the Secret ns/keys has no key "none"`},
		"no such key of a secret": {credential: pair("id", "none"), want: `credential.keyPair.secretField: the Secret ns/keys has no key "none"`},
		"no key pair":             {credential: v1alpha1.Credential{Type: "keyPair"}, want: "credential.keyPair is not given"},
		"no Secret":               {credential: v1alpha1.Credential{Type: "secret"}, want: "credential.secret is not given"},
		"no kopia":                {credential: v1alpha1.Credential{Type: "kopia"}, want: "credential.kopiaServerSecret is not given"},
		"no such certificate":     {credential: badKopia, want: `credential.kopiaServerSecret.tlsCert: the Secret ns/keys has no key "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			profile := &v1alpha1.Profile{Credential: test.credential}
			_, err := profileOf(profile, credentialsNamed(t, profile))
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			case err != nil && strings.Contains(err.Error(), "AKIDEXAMPLE"):
				t.Errorf("a value is in %v", err)
			}
		})
	}
}
