// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
)

// Where Llamas are kept.
const (
	storageRecords = "records"
	storageMemory  = "memory"
)

const (
	defaultPort = 3000 // the tutorial's
	// defaultShutdownDelay is time for all nodes to learn that a replica is going, and for connections to move.
	defaultShutdownDelay = 5 * time.Second
	// defaultWatchGrace is time for watches to end one after the other, so that their clients do not all come back at once.
	defaultWatchGrace = 5 * time.Second
)

// Options are what the command line says.
type Options struct {
	// Kubeconfig file; "" for the ServiceAccount of the Pod.
	Kubeconfig string
	// LlamaStorage is where Llamas are kept: records or memory.
	LlamaStorage string
	// RequirePodAccess shows FarmPods only to those who may see the Pods.
	RequirePodAccess bool
	// ServingSecret is the namespace/name of the Secret with the serving certificate; "" for files, or for a self-signed one.
	ServingSecret string

	// These are k8s.io/apiserver's own.
	Server         *options.ServerRunOptions
	Serving        *options.SecureServingOptions
	Authentication *options.DelegatingAuthenticationOptions
	Authorization  *options.DelegatingAuthorizationOptions
	Admission      *options.AdmissionOptions
	Audit          *options.AuditOptions
	Features       *options.FeatureOptions
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	o := &Options{
		LlamaStorage:   storageRecords,
		Server:         options.NewServerRunOptions(),
		Serving:        options.NewSecureServingOptions(),
		Authentication: options.NewDelegatingAuthenticationOptions(),
		Authorization:  options.NewDelegatingAuthorizationOptions(),
		Admission:      options.NewAdmissionOptions(),
		Audit:          options.NewAuditOptions(),
		Features:       options.NewFeatureOptions(),
	}
	o.Serving.BindPort = defaultPort
	// Nothing is written to disk unless it is asked for.
	o.Serving.ServerCert.CertDirectory = ""
	// kube-apiserver sends the requests of many clients over one connection.
	o.Serving.HTTP2MaxStreamsPerConnection = 1000
	o.Server.ShutdownDelayDuration = defaultShutdownDelay
	o.Server.ShutdownSendRetryAfter = true
	o.Server.ShutdownWatchTerminationGracePeriod = defaultWatchGrace
	// kube-apiserver's own has been passed already, and another would need rights of its own.
	o.Features.EnablePriorityAndFairness = false
	return o
}

// hidden flags are for servers with other jobs, or a storage of their own.
var hidden = []string{
	"advertise-address", "external-hostname", "storage-initialization-timeout", "emulated-version", "emulation-forward-compatible",
	"min-compatibility-version", "runtime-config-emulation-forward-compatible",
}

// Flags returns the flags that set the options, in groups.
func (o *Options) Flags() (groups cliflag.NamedFlagSets) {
	fs := groups.FlagSet("farm")
	fs.StringVar(&o.LlamaStorage, "llama-storage", o.LlamaStorage, "Where Llamas are kept: 'records' is LlamaRecords, custom resources of kube-apiserver, so that all replicas serve the same. 'memory' loses them when the process ends, and is for one replica and for trying things.")
	fs.BoolVar(&o.RequirePodAccess, "farmpods-require-pod-access", o.RequirePodAccess, "Show FarmPods only to those who may do the same with Pods: get, list or watch.")

	fs = groups.FlagSet("API server")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "The kubeconfig file, whose current context says which kube-apiserver to work with. Empty in a Pod, which uses its ServiceAccount. The variable KUBECONFIG is not looked at.")

	fs = groups.FlagSet("serving")
	fs.StringVar(&o.ServingSecret, "serving-secret", o.ServingSecret, "namespace/name of the Secret with the serving certificate (tls.crt, tls.key), which is waited for, watched, and never written. Empty: --tls-cert-file, or else a self-signed certificate in memory.")
	o.Serving.AddFlags(fs)
	fs.Lookup("secure-port").Usage = "The port on which to serve HTTPS with authentication and authorization. Port 0 takes a free one, which is logged."
	fs.Lookup("cert-dir").Usage = "The directory where apiserver.crt and apiserver.key are; a self-signed certificate is written there if they are not. Empty: nothing is written. Ignored with --tls-cert-file."
	fs.Lookup("tls-cert-file").Usage = "PEM file of the serving certificate, and of those between it and its authority. It is waited for, and read again when it changes."

	o.Authentication.AddFlags(groups.FlagSet("authentication"))
	groups.FlagSet("authentication").Lookup("authentication-kubeconfig").Usage = "The kubeconfig file for TokenReviews and the authorities of client certificates; empty for that of --kubeconfig."
	o.Authorization.AddFlags(groups.FlagSet("authorization"))
	groups.FlagSet("authorization").Lookup("authorization-kubeconfig").Usage = "The kubeconfig file for SubjectAccessReviews; empty for that of --kubeconfig."
	o.Admission.AddFlags(groups.FlagSet("admission"))
	o.Audit.AddFlags(groups.FlagSet("audit"))

	fs = groups.FlagSet("server")
	o.Features.AddFlags(fs)
	o.Server.AddUniversalFlags(fs)
	for _, name := range hidden {
		fs.Lookup(name).Hidden = true
	}
	return groups
}

// Validate tells what is wrong with the options, all of it in one line.
func (o *Options) Validate() error {
	var errs []error
	if o.LlamaStorage != storageRecords && o.LlamaStorage != storageMemory {
		errs = append(errs, fmt.Errorf("--llama-storage=%q: %s and %s are known", o.LlamaStorage, storageRecords, storageMemory))
	}
	if o.ServingSecret != "" {
		if _, _, err := splitName(o.ServingSecret); err != nil {
			errs = append(errs, fmt.Errorf("--serving-secret=%q: %w", o.ServingSecret, err))
		}
		if o.Serving.ServerCert.CertKey != (options.CertKey{}) || o.Serving.ServerCert.CertDirectory != "" {
			errs = append(errs, errors.New("--serving-secret goes without --tls-cert-file, --tls-private-key-file and --cert-dir: the certificate comes from one place"))
		}
	}
	if pair := o.Serving.ServerCert.CertKey; (pair.CertFile == "") != (pair.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file go together: give both, or none"))
	}
	for _, theirs := range [][]error{
		o.Server.Validate(), o.Serving.Validate(), o.Authentication.Validate(), o.Authorization.Validate(),
		o.Admission.Validate(), o.Audit.Validate(), o.Features.Validate(),
	} {
		errs = append(errs, theirs...)
	}
	return oneLine(errs)
}

func oneLine(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	messages := make([]string, 0, len(errs))
	for _, err := range errs {
		messages = append(messages, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return errors.New(strings.Join(messages, "; "))
}

// splitName takes the namespace and the name of a Secret apart.
func splitName(of string) (namespace, name string, err error) {
	namespace, name, _ = strings.Cut(of, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", errors.New("it is not namespace/name, as in millwright-system/farm-operator-serving")
	}
	return namespace, name, nil
}

// Config is what Run needs: options that are valid and complete, and the way to kube-apiserver.
type Config struct {
	*Options
	version string
	client  *rest.Config
	// listen opens the port. Tests replace it, to know which one.
	listen func(context.Context, *options.SecureServingOptions) (net.Listener, error)
}

// Config completes the options, which are valid. version is the program's.
func (o *Options) Config(version string) (*Config, error) {
	if err := o.Server.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("--feature-gates: %w", err)
	}
	client, err := clientConfig(o.Kubeconfig, version)
	if err != nil {
		return nil, err
	}
	for _, file := range []*string{&o.Authentication.RemoteKubeConfigFile, &o.Authorization.RemoteKubeConfigFile} {
		if *file == "" {
			*file = o.Kubeconfig
		}
	}
	return &Config{Options: o, version: version, client: client, listen: listen}, nil
}
