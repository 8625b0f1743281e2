// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultTimeout is for a call where none is configured.
const DefaultTimeout = 10 * time.Second

// Version of the protocol. It decides how objects in a request are keyed.
type Version string

const (
	V1 Version = "v1"
	V2 Version = "v2"
)

// Mode is how unknown fields of an answer are treated.
type Mode string

const (
	// Loose ignores them, with a warning.
	Loose Mode = "loose"
	// Strict makes them an error.
	Strict Mode = "strict"
)

// Config is one hook as its author configured it.
type Config struct {
	// Owner of the hook. Hooks of one host are called for their owners in turn, so that the slow hook of one does not keep others waiting.
	Owner string
	// Phase is sync, finalize or customize. It is named in errors.
	Phase string
	// Version is v1 unless given.
	Version Version
	// URL takes precedence over Service and Path.
	URL     string
	Service *Service
	// Path is appended, unchanged, to the service's address.
	Path *string
	// Timeout of a call, from the connection to the end of the body; nil, zero or less: DefaultTimeout.
	Timeout *time.Duration
	// ETag is nil where it is not enabled.
	ETag *ETag
	// Mode is Strict for v2 and Loose for v1 unless given.
	Mode Mode
	// Access of the hook itself, which replaces that of Endpoints completely.
	Access
	Endpoints []Endpoint
	// Source has the Secrets and ConfigMaps that an Access names.
	Source Source
	// Instrument wraps what sends the requests, to measure it; nil: nothing does.
	Instrument func(http.RoundTripper) http.RoundTripper
}

// Service is a Service in the cluster, by the name that the cluster's DNS has for it.
type Service struct {
	Name, Namespace string
	Port            *int32  // 80 unless given
	Protocol        *string // http unless given
}

// Address is what [Hook.URL] of a hook with this configuration is: "" if there can be none.
func (c *Config) Address() string {
	address, err := c.address()
	if err != nil {
		return ""
	}
	return shown(address)
}

// shown returns a URL without what may be a secret in it.
func shown(u *url.URL) string {
	public := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return public.String()
}

// address returns the URL that is called.
func (c *Config) address() (*url.URL, error) {
	address := c.URL
	if address == "" {
		if c.Service == nil || c.Path == nil {
			return nil, errors.New("invalid webhook config: must specify either full 'url', or both 'service' and 'path'")
		}
		if c.Service.Name == "" || c.Service.Namespace == "" {
			return nil, errors.New("invalid client config: must specify service 'name' and 'namespace'")
		}
		port, protocol := int32(80), "http"
		if c.Service.Port != nil {
			port = *c.Service.Port
		}
		if c.Service.Protocol != nil {
			protocol = *c.Service.Protocol
		}
		address = fmt.Sprintf("%s://%s.%s:%d%s", protocol, c.Service.Name, c.Service.Namespace, port, *c.Path)
	}
	parsed, err := url.Parse(address)
	if err != nil {
		// The error of url.Parse has the whole text, and its cause a part of it, maybe of a password.
		cause, ok := errors.AsType[*url.Error](err)
		if !ok || strings.ContainsAny(address, "@?#") {
			return nil, errors.New("invalid webhook config: the URL cannot be parsed: it has an invalid character, port or escape")
		}
		return nil, fmt.Errorf("invalid webhook config: the URL cannot be parsed: %w", cause.Err)
	}
	if parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "" {
		if strings.ContainsAny(address, "@?#") {
			address = shown(parsed) // which encodes characters, so that users may not recognize what they wrote
		}
		return nil, fmt.Errorf("invalid webhook config: %q is no URL of the form http://host/path or https://host/path", address)
	}
	return parsed, nil
}

func (c *Config) version() (Version, error) {
	switch c.Version {
	case "":
		return V1, nil
	case V1, V2:
		return c.Version, nil
	}
	return "", fmt.Errorf("invalid hook config: version is %q, and must be v1 or v2", c.Version)
}

func (c *Config) strict(version Version) (bool, error) {
	switch c.Mode {
	case "":
		return version == V2, nil
	case Loose, Strict:
		return c.Mode == Strict, nil
	}
	return false, fmt.Errorf("invalid webhook config: responseUnMarshallMode is %q, and must be loose or strict", c.Mode)
}
