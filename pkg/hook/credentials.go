// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Source returns the current data of Secrets and ConfigMaps, from a watch. It is used for every call, so that a rotation needs no restart.
// Callers must not change the data.
type Source interface {
	Secret(namespace, name string) (map[string][]byte, error)
	ConfigMap(namespace, name string) (map[string]string, error)
}

// Access is how a hook and its caller authenticate each other. With the zero value, the hook is verified by the system's roots, and the caller
// does not authenticate.
type Access struct {
	CABundle      *CABundle
	ClientTLS     *ClientTLS
	Authorization *Authorization
	BasicAuth     *BasicAuth
}

// KeyRef is a key of a Secret or ConfigMap.
type KeyRef struct{ Namespace, Name, Key string }

// CABundle are the roots that the hook's certificate must come from, in PEM, instead of the system's. Exactly one is set; the
// key is ca.crt unless given.
type CABundle struct {
	Inline       *string
	SecretRef    *KeyRef
	ConfigMapRef *KeyRef
}

// ClientTLS is a Secret with the certificate that the caller presents. The keys are tls.crt and tls.key unless given.
type ClientTLS struct{ Namespace, Name, CertKey, PrivateKeyKey string }

// Authorization is a header "<Type> <value of the key>". The type is Bearer unless given, and never Basic.
type Authorization struct {
	Type      string
	SecretRef KeyRef
}

// BasicAuth is a Secret with a user name and a password. The keys are username and password unless given.
type BasicAuth struct{ Namespace, Name, UsernameKey, PasswordKey string }

// validate returns errors that do not depend on Secrets.
func (a Access) validate() error {
	if a.Authorization != nil && a.BasicAuth != nil {
		return errors.New("authorization and basicAuth are mutually exclusive")
	}
	if a.Authorization != nil && strings.EqualFold(strings.TrimSpace(a.Authorization.Type), "basic") {
		return fmt.Errorf("can't resolve authorization: authorization type %q is not supported; use the basicAuth field instead", a.Authorization.Type)
	}
	if a.CABundle == nil {
		return nil
	}
	set := 0
	for _, isSet := range []bool{a.CABundle.Inline != nil, a.CABundle.SecretRef != nil, a.CABundle.ConfigMapRef != nil} {
		if isSet {
			set++
		}
	}
	switch set {
	case 0:
		return errors.New("can't resolve caBundle: caBundle is set but none of inline, secretRef, or configMapRef is specified")
	case 1:
		return nil
	default:
		return errors.New("can't resolve caBundle: caBundle has more than one source set: exactly one of inline, secretRef, or configMapRef must be specified")
	}
}

// material is the data of the Secrets and ConfigMaps of an Access at one moment.
type material struct {
	ca, cert, key []byte
	header        string // of Authorization
}

func (m material) equal(other material) bool {
	return m.header == other.header && bytes.Equal(m.ca, other.ca) && bytes.Equal(m.cert, other.cert) && bytes.Equal(m.key, other.key)
}

// read reads from the source all that the access needs.
func (a Access) read(source Source) (m material, err error) {
	if m.ca, err = a.CABundle.read(source); err != nil {
		return material{}, fmt.Errorf("can't resolve caBundle: %w", err)
	}
	if a.ClientTLS != nil {
		data, err := secretData(source, "clientTLS", a.ClientTLS.Namespace, a.ClientTLS.Name, orDefault(a.ClientTLS.CertKey, "tls.crt"),
			orDefault(a.ClientTLS.PrivateKeyKey, "tls.key"))
		if err != nil {
			return material{}, fmt.Errorf("can't resolve clientTLS: %w", err)
		}
		m.cert, m.key = data[0], data[1]
	}
	if a.Authorization != nil {
		if m.header, err = a.Authorization.header(source); err != nil {
			return material{}, fmt.Errorf("can't resolve authorization: %w", err)
		}
	}
	if a.BasicAuth != nil {
		if m.header, err = a.BasicAuth.header(source); err != nil {
			return material{}, fmt.Errorf("can't resolve basicAuth: %w", err)
		}
	}
	return m, nil
}

func (c *CABundle) read(source Source) ([]byte, error) {
	var value []byte
	var from string
	switch {
	case c == nil:
		return nil, nil
	case c.Inline != nil:
		value, from = []byte(*c.Inline), "caBundle: the inline bundle"
	case c.SecretRef != nil:
		ref := *c.SecretRef
		ref.Key = orDefault(ref.Key, "ca.crt")
		data, err := source.Secret(ref.Namespace, ref.Name)
		if err != nil {
			return nil, fmt.Errorf("caBundle: failed to get Secret %s/%s: %w", ref.Namespace, ref.Name, err)
		}
		found := false
		if value, found = data[ref.Key]; !found {
			return nil, fmt.Errorf("caBundle: key %q not found in Secret %s/%s", ref.Key, ref.Namespace, ref.Name)
		}
		from = fmt.Sprintf("caBundle: key %q in Secret %s/%s", ref.Key, ref.Namespace, ref.Name)
	default:
		ref := *c.ConfigMapRef
		ref.Key = orDefault(ref.Key, "ca.crt")
		data, err := source.ConfigMap(ref.Namespace, ref.Name)
		if err != nil {
			return nil, fmt.Errorf("caBundle: failed to get ConfigMap %s/%s: %w", ref.Namespace, ref.Name, err)
		}
		text, found := data[ref.Key]
		if !found {
			return nil, fmt.Errorf("caBundle: key %q not found in ConfigMap %s/%s", ref.Key, ref.Namespace, ref.Name)
		}
		value, from = []byte(text), fmt.Sprintf("caBundle: key %q in ConfigMap %s/%s", ref.Key, ref.Namespace, ref.Name)
	}
	if len(value) == 0 { // which would mean the system's roots
		return nil, fmt.Errorf("%s is empty", from)
	}
	return value, nil
}

func (a *Authorization) header(source Source) (string, error) {
	data, err := secretData(source, "authorization", a.SecretRef.Namespace, a.SecretRef.Name, a.SecretRef.Key)
	if err != nil {
		return "", err
	}
	header := orDefault(strings.TrimSpace(a.Type), "Bearer") + " " + strings.TrimSpace(string(data[0]))
	if strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("key %q of authorization secret %s/%s has a line break or another control character in it, which no header can hold",
			a.SecretRef.Key, a.SecretRef.Namespace, a.SecretRef.Name)
	}
	return header, nil
}

func (b *BasicAuth) header(source Source) (string, error) {
	data, err := secretData(source, "basicAuth", b.Namespace, b.Name, orDefault(b.UsernameKey, "username"), orDefault(b.PasswordKey, "password"))
	if err != nil {
		return "", err
	}
	username, password := strings.TrimSpace(string(data[0])), strings.TrimSpace(string(data[1]))
	if strings.Contains(username, ":") {
		return "", fmt.Errorf("the username in basicAuth secret %s/%s must not contain \":\"", b.Namespace, b.Name)
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password)), nil
}

// secretData returns the values of the keys, which must all exist.
func secretData(source Source, what, namespace, name string, keys ...string) ([][]byte, error) {
	data, err := source.Secret(namespace, name)
	if err != nil {
		return nil, fmt.Errorf("can't get %s secret %s/%s: %w", what, namespace, name, err)
	}
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, found := data[key]
		if !found {
			return nil, fmt.Errorf("%s secret %s/%s does not contain key %q", what, namespace, name, key)
		}
		values[i] = value
	}
	return values, nil
}

// tlsConfig parses the TLS part of the material. It is nil where there is none.
func (m material) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.ca != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(m.ca) {
			return nil, errors.New("can't resolve caBundle: caBundle: no valid PEM-encoded certificates found in the provided CA bundle")
		}
	}
	if m.cert != nil || m.key != nil {
		pair, err := tls.X509KeyPair(m.cert, m.key)
		if err != nil {
			return nil, fmt.Errorf("can't resolve clientTLS: can't parse clientTLS certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
