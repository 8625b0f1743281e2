// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
)

// credentialSecrets are the types of Secrets that a credential of type secret may name, with the required keys. Of each group one key is required.
var credentialSecrets = map[corev1.SecretType][][]string{
	"secrets.kanister.io/aws":       {{"aws_access_key_id"}, {"aws_secret_access_key"}},
	"secrets.kanister.io/azure":     {{"azure_storage_account_id"}, {"azure_storage_key"}},
	"secrets.kanister.io/gcp":       {{"gcp_project_id"}, {"gcp_service_key", "service-account.json"}},
	"secrets.kanister.io/filestore": nil,
}

// secretsOf returns the Secrets that the credential of a Profile names.
func secretsOf(profile *v1alpha1.Profile) (references []v1alpha1.ObjectReference) {
	credential := &profile.Credential
	switch {
	case credential.Type == v1alpha1.CredentialTypeKeyPair && credential.KeyPair != nil:
		references = append(references, credential.KeyPair.Secret)
	case credential.Type == v1alpha1.CredentialTypeSecret && credential.Secret != nil:
		references = append(references, *credential.Secret)
	case credential.Type == v1alpha1.CredentialTypeKopia && credential.KopiaServerSecret != nil:
		for _, ref := range []*v1alpha1.KopiaServerSecretRef{credential.KopiaServerSecret.UserPassphrase, credential.KopiaServerSecret.TLSCert} {
			if ref != nil && ref.Secret != nil {
				references = append(references, *ref.Secret)
			}
		}
	}
	return references
}

// withoutCredential returns the data of a Profile for templates that use its credential for nothing but its type.
func withoutCredential(profile *v1alpha1.Profile) *blueprint.Profile {
	location := profile.Location
	return &blueprint.Profile{
		Location: blueprint.Location{
			Type: string(location.Type), Bucket: location.Bucket, Endpoint: location.Endpoint, Prefix: location.Prefix, Region: location.Region,
		},
		Credential:    blueprint.Credential{Type: string(profile.Credential.Type)},
		SkipSSLVerify: profile.SkipSSLVerify,
	}
}

// profileOf returns the data of a Profile for templates. Errors contain keys, but no values.
func profileOf(profile *v1alpha1.Profile, secrets map[v1alpha1.ObjectReference]*corev1.Secret) (*blueprint.Profile, error) {
	params := withoutCredential(profile)
	credential, err := &params.Credential, error(nil)
	switch of := &profile.Credential; of.Type {
	case v1alpha1.CredentialTypeKeyPair:
		if of.KeyPair == nil {
			return nil, fmt.Errorf("credential.keyPair is not given, and credential.type is %s", of.Type)
		}
		secret := secrets[of.KeyPair.Secret]
		pair := &blueprint.KeyPair{}
		if pair.ID, err = valueOf(secret, of.KeyPair.IDField); err != nil {
			return nil, fmt.Errorf("credential.keyPair.idField: %w", err)
		}
		if pair.Secret, err = valueOf(secret, of.KeyPair.SecretField); err != nil {
			return nil, fmt.Errorf("credential.keyPair.secretField: %w", err)
		}
		credential.KeyPair = pair
	case v1alpha1.CredentialTypeSecret:
		if of.Secret == nil {
			return nil, fmt.Errorf("credential.secret is not given, and credential.type is %s", of.Type)
		}
		credential.Secret = secrets[*of.Secret]
		err = checkCredential(credential.Secret)
	case v1alpha1.CredentialTypeKopia:
		credential.KopiaServerSecret, err = kopiaOf(of.KopiaServerSecret, secrets)
	default:
		return nil, fmt.Errorf("invalid credential.type %q: must be keyPair, secret or kopia", of.Type)
	}
	return params, err
}

// kopiaOf returns the data of a Kopia server for templates.
func kopiaOf(of *v1alpha1.KopiaServerSecret, secrets map[v1alpha1.ObjectReference]*corev1.Secret) (*blueprint.KopiaServerSecret, error) {
	if of == nil {
		return nil, fmt.Errorf("credential.kopiaServerSecret is not given, and credential.type is %s", v1alpha1.CredentialTypeKopia)
	}
	kopia := &blueprint.KopiaServerSecret{Username: of.Username, Hostname: of.Hostname, ConnectOptions: of.ConnectOptions}
	for _, field := range []struct {
		name string
		ref  *v1alpha1.KopiaServerSecretRef
		into *string
	}{{"userPassphrase", of.UserPassphrase, &kopia.Password}, {"tlsCert", of.TLSCert, &kopia.Cert}} {
		if field.ref == nil || field.ref.Secret == nil {
			continue
		}
		value, err := valueOf(secrets[*field.ref.Secret], field.ref.Key)
		if err != nil {
			return nil, fmt.Errorf("credential.kopiaServerSecret.%s: %w", field.name, err)
		}
		*field.into = value
	}
	return kopia, nil
}

func valueOf(secret *corev1.Secret, key string) (string, error) {
	value, found := secret.Data[key]
	if !found {
		return "", fmt.Errorf("the Secret %s/%s has no key %q", secret.Namespace, secret.Name, key)
	}
	return string(value), nil
}

// checkCredential returns an error if a Secret is not what a credential may name.
func checkCredential(secret *corev1.Secret) error {
	groups, known := credentialSecrets[secret.Type]
	if !known {
		var types []string
		for name := range credentialSecrets {
			types = append(types, string(name))
		}
		slices.Sort(types)
		return fmt.Errorf("the Secret %s/%s has the type %q: it must be one of %s", secret.Namespace, secret.Name, secret.Type, strings.Join(types, ", "))
	}
	for _, group := range groups {
		has := func(key string) bool { return secret.Data[key] != nil }
		if !slices.ContainsFunc(group, has) {
			return fmt.Errorf("the Secret %s/%s of type %s has no key %s", secret.Namespace, secret.Name, secret.Type, strings.Join(group, " or "))
		}
	}
	return nil
}
