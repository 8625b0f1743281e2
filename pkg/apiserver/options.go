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

	"millwright.dev/pkg/flagerrors"
	"millwright.dev/pkg/kubeconfig"
)

// Where Llamas are stored.
const (
	storageRecords = "records"
	storageMemory  = "memory"
)

// Storages returns the values of --llama-storage.
func Storages() []string { return []string{storageRecords, storageMemory} }

const (
	defaultPort = 3000 // the tutorial's
	// defaultShutdownDelay is the time for all nodes to learn that a replica ends, and for connections to move.
	defaultShutdownDelay = 5 * time.Second
	// defaultWatchGrace is the time for watches to end one after the other, so that their clients do not all return at the same moment.
	defaultWatchGrace = 5 * time.Second
)

// Options are set by the command line.
type Options struct {
	// Kubeconfig file; "" for the ServiceAccount of the Pod, or the files that kubectl reads.
	Kubeconfig string
	// LlamaStorage is where Llamas are stored: records or memory.
	LlamaStorage string
	// RequirePodAccess serves FarmPods only to users who may read the Pods.
	RequirePodAccess bool
	// ServingSecret is the namespace/name of the Secret with the serving certificate; "" for files, or for a self-signed one.
	ServingSecret string

	// These belong to k8s.io/apiserver.
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
	// By default nothing is written to disk.
	o.Serving.ServerCert.CertDirectory = ""
	// kube-apiserver sends the requests of many clients over one connection.
	o.Serving.HTTP2MaxStreamsPerConnection = 1000
	o.Server.ShutdownDelayDuration = defaultShutdownDelay
	o.Server.ShutdownSendRetryAfter = true
	o.Server.ShutdownWatchTerminationGracePeriod = defaultWatchGrace
	// kube-apiserver has applied its own already, and another would need more rights.
	o.Features.EnablePriorityAndFairness = false
	return o
}

// hidden flags have no use here: they are for servers with etcd or other jobs.
var hidden = []string{
	"advertise-address", "external-hostname", "storage-initialization-timeout", "emulated-version", "emulation-forward-compatible",
	"min-compatibility-version", "runtime-config-emulation-forward-compatible",
}

// Flags returns the flags that set the options, in groups.
func (o *Options) Flags() (groups cliflag.NamedFlagSets) {
	fs := groups.FlagSet("farm")
	fs.StringVar(&o.LlamaStorage, "llama-storage", o.LlamaStorage, "Where Llamas are stored: 'records' stores them as LlamaRecords, custom resources of kube-apiserver, so that all replicas serve the same. 'memory' loses them when the process ends: for one replica and for tests.")
	fs.BoolVar(&o.RequirePodAccess, "farmpods-require-pod-access", o.RequirePodAccess, "Serve FarmPods only to users who may get, list or watch Pods.")

	fs = groups.FlagSet("API server")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "The kubeconfig file, whose current context names the kube-apiserver. Empty: the ServiceAccount of the Pod; outside of a Pod, the files that kubectl reads (KUBECONFIG, or ~/.kube/config).")

	fs = groups.FlagSet("serving")
	fs.StringVar(&o.ServingSecret, "serving-secret", o.ServingSecret, "namespace/name of the Secret with the serving certificate (tls.crt, tls.key), which is awaited, watched, and never written. Empty: --tls-cert-file, or else a self-signed certificate in memory.")
	o.Serving.AddFlags(fs)
	fs.Lookup("secure-port").Usage = "The port on which to serve HTTPS with authentication and authorization. Port 0 chooses a free one, which is logged."
	fs.Lookup("cert-dir").Usage = "The directory of apiserver.crt and apiserver.key; a self-signed certificate is written there if they do not exist. Empty: nothing is written. Ignored with --tls-cert-file."
	fs.Lookup("tls-cert-file").Usage = "PEM file of the serving certificate and its intermediate certificates. It is awaited, and reloaded when it changes."

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

// Validate returns all that is wrong with the options, in one line.
func (o *Options) Validate() error {
	var errs []error
	if o.LlamaStorage != storageRecords && o.LlamaStorage != storageMemory {
		errs = append(errs, fmt.Errorf("invalid --llama-storage %q: must be %s or %s", o.LlamaStorage, storageRecords, storageMemory))
	}
	if o.ServingSecret != "" {
		if _, _, err := splitName(o.ServingSecret); err != nil {
			errs = append(errs, fmt.Errorf("invalid --serving-secret %q: %w", o.ServingSecret, err))
		}
		if o.Serving.ServerCert.CertKey != (options.CertKey{}) || o.Serving.ServerCert.CertDirectory != "" {
			errs = append(errs, errors.New("--serving-secret must not be given with --tls-cert-file, --tls-private-key-file or --cert-dir: the certificate comes from one place"))
		}
	}
	if pair := o.Serving.ServerCert.CertKey; (pair.CertFile == "") != (pair.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file must be given together"))
	}
	for _, theirs := range [][]error{
		o.Server.Validate(), o.Serving.Validate(), o.Authentication.Validate(), o.Authorization.Validate(),
		o.Admission.Validate(), o.Audit.Validate(), o.Features.Validate(),
	} {
		errs = append(errs, theirs...)
	}
	return flagerrors.Join(errs)
}

// splitName splits the namespace/name of a Secret.
func splitName(of string) (namespace, name string, err error) {
	namespace, name, _ = strings.Cut(of, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", errors.New("must be namespace/name, as in millwright-system/farm-operator-serving")
	}
	return namespace, name, nil
}

// Config is the input of Run: valid and complete options, and the client configuration for kube-apiserver.
type Config struct {
	*Options
	version string
	client  *rest.Config
	cluster *kubeconfig.Cluster
	// listen opens the port. Tests replace it to learn the port.
	listen func(context.Context, *options.SecureServingOptions) (net.Listener, error)
	// directTimeout is that of clients that connect directly. Tests shorten it.
	directTimeout time.Duration
}

// Config completes valid options. version is that of the program.
func (o *Options) Config(version string) (*Config, error) {
	if err := o.Server.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("invalid --feature-gates: %w", err)
	}
	cluster, err := kubeconfig.Load(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	for _, file := range []*string{&o.Authentication.RemoteKubeConfigFile, &o.Authorization.RemoteKubeConfigFile} {
		if *file == "" {
			*file = o.Kubeconfig
		}
	}
	return &Config{
		Options: o, version: version, client: clientConfig(cluster.Config, version), cluster: cluster, listen: listen, directTimeout: directTimeout,
	}, nil
}
