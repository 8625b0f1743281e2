// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package certs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Secrets are the two that keep a State. Nil is one that does not exist.
type Secrets struct {
	// Authority, of type Opaque, holds DataBundle, DataAuthorityKeys and DataRotation. Only the controller may read it.
	Authority *corev1.Secret
	// Serving, of type kubernetes.io/tls, holds tls.crt, tls.key and a copy of DataBundle.
	Serving *corev1.Secret
}

// Keys of the Secrets' data, in addition to tls.crt and tls.key, which are the serving certificate and its key.
const (
	// DataBundle holds the certificates of all authorities, as PEM: what clients are to trust.
	DataBundle = "ca.crt"
	// DataAuthorityKeys holds the keys of the authorities that sign or wait to, as PEM. Whose they are shows by themselves.
	DataAuthorityKeys = "ca.key"
	// DataRotation holds what cannot be seen from certificates: a JSON object. It may be lost: then a rotation waits longer.
	DataRotation = "rotation.json"
)

// ofAuthority are the keys of the data that no server is shown.
var ofAuthority = []string{DataAuthorityKeys, DataRotation}

// LabelManagedBy marks a Secret as one that we may write.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "millwright"
)

// ErrForeign is returned for a Secret of another owner, such as cert-manager.
var ErrForeign = errors.New("the Secret has content and is not labelled " + LabelManagedBy + "=" + ManagedBy + ", so it is left as it is: name another one, or label or delete it")

// rotation is the JSON of DataRotation. Fields may be added; they never change their meaning.
type rotation struct {
	Authorities map[Fingerprint]authorityRotation `json:"authorities"`
}

type authorityRotation struct {
	Distributed *metav1.Time `json:"distributed,omitempty"`
	SignedUntil *metav1.Time `json:"signedUntil,omitempty"`
}

// maxAuthorities bounds what is read from a Secret; a rotation has two, seldom three.
const maxAuthorities = 16

// Foreign returns the first of the Secrets that is not ours to write; nil if there is none.
func (s Secrets) Foreign() *corev1.Secret {
	switch {
	case isForeign(s.Authority, corev1.SecretTypeOpaque):
		return s.Authority
	case isForeign(s.Serving, corev1.SecretTypeTLS):
		return s.Serving
	default:
		return nil
	}
}

func isForeign(secret *corev1.Secret, ours corev1.SecretType) bool {
	return secret != nil && (secret.Type != ours || secret.Labels[LabelManagedBy] != ManagedBy && hasContent(secret))
}

// Decode reads the Secrets. What cannot be used is left out and named in State.Problems, to be replaced. It returns ErrForeign if a
// Secret is not ours.
//
// Where there is only a Serving that has keys of authorities, as one Secret had before there were two, its authorities are still trusted
// for what they have signed, but sign no more: a client that could read the serving key could read theirs.
func Decode(secrets Secrets) (State, error) {
	if foreign := secrets.Foreign(); foreign != nil {
		return State{}, fmt.Errorf("reading certificates from Secret %s/%s: %w", foreign.Namespace, foreign.Name, ErrForeign)
	}
	var state State
	switch {
	case secrets.Authority != nil:
		state.decodeAuthorities(secrets.Authority.Data)
	case secrets.Serving != nil && len(secrets.Serving.Data[DataAuthorityKeys]) > 0:
		former := maps.Clone(secrets.Serving.Data)
		delete(former, DataAuthorityKeys)
		state.decodeAuthorities(former)
	}
	if secrets.Serving != nil {
		state.decodeServing(secrets.Serving.Data)
	}
	return state, nil
}

func hasContent(secret *corev1.Secret) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(secret.Data)), func(value []byte) bool { return len(value) > 0 })
}

func (s *State) problem(key, text string) { s.Problems = append(s.Problems, key+" "+text) }

func (s *State) decodeAuthorities(data map[string][]byte) {
	var records rotation
	if content := data[DataRotation]; len(content) > 0 && json.Unmarshal(content, &records) != nil {
		s.problem(DataRotation, "is not the JSON that was written")
		records = rotation{}
	}
	keys, clean := decodeKeys(data[DataAuthorityKeys])
	if !clean {
		s.problem(DataAuthorityKeys, "has content that is not an ECDSA P-256 key")
	}
	certificates, clean := decodeCertificates(data[DataBundle])
	if !clean {
		s.problem(DataBundle, "has content that is not a certificate")
	}
	for _, certificate := range certificates {
		if !certificate.IsCA || certificate.CheckSignatureFrom(certificate) != nil || len(s.Authorities) == maxAuthorities {
			s.problem(DataBundle, "has a certificate that is not an authority of its own, or too many")
			continue
		}
		// Without a record the authority may have signed anything.
		authority := Authority{Certificate: certificate, SignedUntil: certificate.NotAfter}
		if record, exists := records.Authorities[fingerprint(certificate)]; exists {
			authority.Distributed = timeOf(record.Distributed)
			if until := timeOf(record.SignedUntil); until.Before(certificate.NotAfter) {
				authority.SignedUntil = until
			}
		}
		for _, key := range keys {
			if key.matches(certificate) {
				authority.Key = key
			}
		}
		s.Authorities = append(s.Authorities, authority)
	}
	s.Authorities = sortAuthorities(s.Authorities)
}

func (s *State) decodeServing(data map[string][]byte) {
	certificates, clean := decodeCertificates(data[corev1.TLSCertKey])
	if !clean || len(certificates) > 1 {
		s.problem(corev1.TLSCertKey, "is not one certificate")
		return
	}
	keys, clean := decodeKeys(data[corev1.TLSPrivateKeyKey])
	switch {
	case !clean || len(keys) > 1:
		s.problem(corev1.TLSPrivateKeyKey, "is not one ECDSA P-256 key")
	case len(certificates) == 0 && len(keys) == 0:
	case len(certificates) == 0 || len(keys) == 0 || !keys[0].matches(certificates[0]):
		s.problem(corev1.TLSPrivateKeyKey, "is not the key of "+corev1.TLSCertKey)
	default:
		s.Serving = &Serving{certificates[0], keys[0]}
	}
}

// authorityData is what the Secret of the authorities holds: equal states give equal data.
func authorityData(state State) (map[string][]byte, error) {
	records := rotation{Authorities: map[Fingerprint]authorityRotation{}}
	data := map[string][]byte{DataBundle: state.Bundle(), DataAuthorityKeys: {}}
	for _, authority := range sortAuthorities(state.Authorities) {
		records.Authorities[authority.id()] = authorityRotation{recordOf(authority.Distributed), recordOf(authority.SignedUntil)}
		if authority.Key.exists() {
			key, err := encodeKey(authority.Key)
			if err != nil {
				return nil, fmt.Errorf("encoding the key of authority %.8s: %w", authority.id(), err)
			}
			data[DataAuthorityKeys] = append(data[DataAuthorityKeys], key...)
		}
	}
	var err error
	data[DataRotation], err = json.Marshal(records)
	return data, err
}

// servingData is what the Secret of the serving certificate holds.
func servingData(state State) (map[string][]byte, error) {
	data := map[string][]byte{DataBundle: state.Bundle(), corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}}
	if state.Serving != nil {
		key, err := encodeKey(state.Serving.Key)
		if err != nil {
			return nil, fmt.Errorf("encoding the key of the serving certificate: %w", err)
		}
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = encodeCertificate(state.Serving.Certificate), key
	}
	return data, nil
}

// Store returns the Secrets to write: to create where there is none yet, else to update, guarded by the resourceVersion. Data of other
// keys stays. Nil means that there is nothing to write. Authority is to be written first: a certificate
// whose authority is not stored is replaced, and no client ever trusts it.
func Store(kept Secrets, authority, serving types.NamespacedName, state State) (wanted Secrets, err error) {
	data, err := authorityData(state)
	if err != nil {
		return Secrets{}, fmt.Errorf("storing certificates in Secret %s: %w", authority, err)
	}
	wanted.Authority = storeData(kept.Authority, authority, corev1.SecretTypeOpaque, data)
	if data, err = servingData(state); err != nil {
		return Secrets{}, fmt.Errorf("storing certificates in Secret %s: %w", serving, err)
	}
	wanted.Serving = storeData(kept.Serving, serving, corev1.SecretTypeTLS, data, ofAuthority...)
	return wanted, nil
}

// storeData returns the Secret to write so that it has the data, and not the unwanted keys; nil if it is so already.
func storeData(existing *corev1.Secret, name types.NamespacedName, ofType corev1.SecretType, data map[string][]byte, unwanted ...string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Type: ofType}
	if existing != nil {
		secret = existing.DeepCopy()
	}
	changed := existing == nil || secret.Labels[LabelManagedBy] != ManagedBy
	metav1.SetMetaDataLabel(&secret.ObjectMeta, LabelManagedBy, ManagedBy)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for _, key := range unwanted {
		_, has := secret.Data[key]
		changed = changed || has
		delete(secret.Data, key)
	}
	for key, value := range data {
		changed = changed || string(secret.Data[key]) != string(value)
		secret.Data[key] = value
	}
	if !changed {
		return nil
	}
	return secret
}

// LostRace reports whether a write failed because another process was first: the result is dropped, and everything is read
// again. So two processes that create concurrently end with the certificates of one.
func LostRace(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }

func timeOf(record *metav1.Time) time.Time {
	if record == nil {
		return time.Time{}
	}
	return record.Time
}

// recordOf rounds up to the seconds that JSON holds: a wait never gets shorter.
func recordOf(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second)
	}
	return &metav1.Time{Time: at.UTC()}
}
