// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/deadline"
	"millwright.dev/pkg/flagerrors"
	"millwright.dev/pkg/kubeconfig"
)

// Options are set by the command line.
type Options struct {
	// Kubeconfig file; "" for the ServiceAccount of the Pod.
	Kubeconfig string
	// QPS and Burst limit the requests of each client; 0 for no limit.
	QPS   float32
	Burst int
	// RequestTimeout is how long a request may wait for its answer to begin, and for each next part of it.
	RequestTimeout time.Duration
	// Controllers to run, in the syntax of the flag.
	Controllers []string
	// Workers of each controller.
	Workers int
	// Namespace to work in; "" for all.
	Namespace string
	// ServingAddress is host:port; "" or "0" to serve nothing.
	ServingAddress string
	// SecureMetrics are served in addition to it. Its address may be "0" too.
	SecureMetrics SecureMetrics
	// ShutdownTimeout is how long controllers may take to stop.
	ShutdownTimeout time.Duration
	// LeaderElect is true if other processes may run.
	LeaderElect bool
	// LeaderElection is used if LeaderElect is true. An empty Namespace stands for the Pod's.
	LeaderElection LeaderElection

	table []Descriptor
}

// defaultWorkers of each controller.
const defaultWorkers = 16

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Controllers:     []string{"*"},
		Workers:         defaultWorkers,
		RequestTimeout:  deadline.Default,
		ServingAddress:  "127.0.0.1:8080",
		ShutdownTimeout: 15 * time.Second,
		LeaderElect:     true,
		LeaderElection: LeaderElection{
			Name:          "millwright-controllers",
			LeaseDuration: 15 * time.Second,
			RenewDeadline: 10 * time.Second,
			RetryPeriod:   2 * time.Second,
		},
		table: Descriptors(),
	}
}

// Flags returns the flags that set the options, in groups.
func (o *Options) Flags() (groups cliflag.NamedFlagSets) {
	fs := groups.FlagSet("controllers")
	fs.StringSliceVar(&o.Controllers, "controllers", o.Controllers,
		"Controllers to run: '*' for all, 'foo' for foo, '-foo' for all but foo together with '*'. All controllers: "+strings.Join(names(o.table), ", ")+".")
	fs.IntVar(&o.Workers, "workers", o.Workers, "The number of objects that each controller syncs concurrently. For CompositeControllers and DecoratorControllers see --hook-workers.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "The only namespace to work in; empty for all.")
	fs.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", o.ShutdownTimeout, "How long controllers may take to finish their syncs when the process is asked to stop.")

	for _, d := range o.table {
		if d.Options != nil {
			d.Options.AddFlags(groups.FlagSet(d.Options.Group()))
		}
	}

	fs = groups.FlagSet("API server")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "The kubeconfig file, whose current context names the cluster to work on. Empty: the ServiceAccount of the Pod; outside of a Pod, the files that kubectl reads (KUBECONFIG, or ~/.kube/config).")
	fs.Float32Var(&o.QPS, "kube-api-qps", o.QPS, "Requests per second that each controller may send; 0 for no limit except the API server's own.")
	fs.IntVar(&o.Burst, "kube-api-burst", o.Burst, "Requests that each controller may send in a burst beyond --kube-api-qps; 0 for that number.")

	fs.DurationVar(&o.RequestTimeout, "kube-api-timeout", o.RequestTimeout, "How long a request may wait until its response begins, and between two parts of it. Logs that are followed and commands in containers have no limit. It should be longer than the API server's own --request-timeout, which is 60s by default: with a shorter one, requests are given up and sent again that a busy API server or a slow admission webhook would still have answered.")

	fs = groups.FlagSet("serving")
	fs.StringVar(&o.ServingAddress, "serving-address", o.ServingAddress, "host:port of /healthz, /livez and /readyz, and of /metrics unless --metrics-address serves it. Port 0 takes a free one, which is logged. Empty or 0 serves nothing.")
	fs.StringVar(&o.SecureMetrics.Address, "metrics-address", o.SecureMetrics.Address, "host:port of /metrics over HTTPS, for clients that the API server authorizes to get that path (TokenReview and SubjectAccessReview). Empty or 0: --serving-address serves /metrics, to every client that reaches it.")
	fs.StringVar(&o.SecureMetrics.CertFile, "metrics-tls-cert-file", o.SecureMetrics.CertFile, "PEM file of the certificate for --metrics-address, read again when it changes. Empty: each process creates a self-signed one.")
	fs.StringVar(&o.SecureMetrics.KeyFile, "metrics-tls-key-file", o.SecureMetrics.KeyFile, "PEM file of the key for --metrics-tls-cert-file.")

	fs = groups.FlagSet("leader election")
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Sync only while holding a Lease, so that one of several processes leads and the others are standbys.")
	election := &o.LeaderElection
	fs.StringVar(&election.Name, "leader-elect-lease-name", election.Name, "The Lease's name. Processes that run different controllers need different ones.")
	fs.StringVar(&election.Namespace, "leader-elect-lease-namespace", election.Namespace, "The Lease's namespace; empty for the Pod's own, and for 'default' with a kubeconfig.")
	fs.StringVar(&election.Identity, "leader-elect-identity", election.Identity, "The holder that the Lease names while this process leads. With the one that it had before, a process that was killed and is started again leads without waiting until the Lease expires. Two processes with the same one would both lead: it is not for Deployments. Empty: the host's name and a random part.")
	fs.DurationVar(&election.LeaseDuration, "leader-elect-lease-duration", election.LeaseDuration, "How long a standby waits for a leader that does not renew its Lease before it takes over.")
	fs.DurationVar(&election.RenewDeadline, "leader-elect-renew-deadline", election.RenewDeadline, "How long a leader that cannot renew its Lease retries before it exits. It must be less than the lease duration.")
	fs.DurationVar(&election.RetryPeriod, "leader-elect-retry-period", election.RetryPeriod, "The pause between two renewals.")
	return groups
}

// Set sets a flag to a value, as the command line does.
func (o *Options) Set(flag, value string) error {
	all := pflag.NewFlagSet("controllers", pflag.ContinueOnError)
	groups := o.Flags()
	for _, fs := range groups.FlagSets {
		all.AddFlagSet(fs)
	}
	return all.Set(flag, value)
}

// Selectable returns what an item of --controllers may be.
func (o *Options) Selectable() []string {
	items := []string{"*"}
	for _, name := range names(o.table) {
		items = append(items, name, "-"+name)
	}
	return items
}

// Validate returns all that is wrong with the options, in one line.
func (o *Options) Validate() error {
	_, err := selectControllers(o.table, o.Controllers)
	errs := []error{err}
	check := func(wrong bool, flag string, value any, must string, args ...any) {
		if wrong {
			errs = append(errs, invalid(flag, value, must, args...))
		}
	}
	check(o.Workers < 1, "workers", o.Workers, "must be at least 1")
	errs = append(errs, o.otherMeanings()...)
	problems := validation.IsDNS1123Label(o.Namespace)
	check(o.Namespace != "" && len(problems) > 0, "namespace", o.Namespace, "must be the name of a namespace: %s", strings.Join(problems, ", "))
	for _, d := range o.table {
		if d.Options != nil {
			errs = append(errs, d.Options.Validate()...)
		}
	}
	check(o.QPS < 0, "kube-api-qps", o.QPS, "must not be negative; 0 is no limit")
	check(o.Burst < 0, "kube-api-burst", o.Burst, "must not be negative; 0 is no limit")
	check(o.QPS == 0 && o.Burst > 0, "kube-api-burst", o.Burst, "must be set together with --kube-api-qps")
	check(o.RequestTimeout < time.Second, "kube-api-timeout", o.RequestTimeout, "must be at least a second")
	check(!isAddress(o.ServingAddress), "serving-address", o.ServingAddress, mustBeAddress)
	errs = append(errs, o.SecureMetrics.validate()...)
	check(o.ShutdownTimeout <= 0, "shutdown-timeout", o.ShutdownTimeout, "must be positive")
	if o.LeaderElect {
		errs = append(errs, o.LeaderElection.validate()...)
	}
	return flagerrors.Join(errs)
}

// isOff reports whether nothing is to be served on an address.
func isOff(address string) bool { return address == "" || address == "0" }

const mustBeAddress = "must be host:port, as in 127.0.0.1:8080, or :8080 for all interfaces"

// isAddress reports whether an address is host:port, or nothing is to be served.
func isAddress(address string) bool {
	if isOff(address) {
		return true
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func (m SecureMetrics) validate() (errs []error) {
	if !isAddress(m.Address) {
		errs = append(errs, invalid("metrics-address", m.Address, mustBeAddress))
	}
	if (m.CertFile == "") != (m.KeyFile == "") {
		return append(errs, invalid("metrics-tls-cert-file", m.CertFile, "must be set together with --metrics-tls-key-file"))
	}
	if m.CertFile != "" && isOff(m.Address) {
		errs = append(errs, invalid("metrics-tls-cert-file", m.CertFile, "must be set together with --metrics-address"))
	}
	return errs
}

func (l LeaderElection) validate() (errs []error) {
	if problems := validation.IsDNS1123Subdomain(l.Name); len(problems) > 0 {
		errs = append(errs, invalid("leader-elect-lease-name", l.Name, "must be the name of a Lease: %s", problems[0]))
	}
	if problems := validation.IsDNS1123Label(l.Namespace); l.Namespace != "" && len(problems) > 0 {
		errs = append(errs, invalid("leader-elect-lease-namespace", l.Namespace, "must be the name of a namespace: %s", problems[0]))
	}
	if l.LeaseDuration < time.Second || l.LeaseDuration%time.Second != 0 {
		errs = append(errs, invalid("leader-elect-lease-duration", l.LeaseDuration, "must be whole seconds, at least one"))
	}
	if l.LeaseDuration <= l.RenewDeadline {
		errs = append(errs, invalid("leader-elect-renew-deadline", l.RenewDeadline,
			"must be less than --leader-elect-lease-duration %s: a leader has to end before another begins", l.LeaseDuration))
	}
	if longest := time.Duration(leaderelection.JitterFactor * float64(l.RetryPeriod)); l.RetryPeriod <= 0 || l.RenewDeadline <= longest {
		errs = append(errs, invalid("leader-elect-retry-period", l.RetryPeriod,
			"must be positive, and %.1f times it less than --leader-elect-renew-deadline %s", leaderelection.JitterFactor, l.RenewDeadline))
	}
	return errs
}

// Config completes the options, which are valid. version is the program's.
func (o *Options) Config(version string) (*Config, error) {
	controllers, err := selectControllers(o.table, o.Controllers)
	if err != nil {
		return nil, err
	}
	cluster, err := kubeconfig.Load(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client := cluster.Config
	client.QPS, client.Burst = -1, 0 // no limit on our side
	if o.QPS > 0 {
		client.QPS, client.Burst = o.QPS, max(o.Burst, int(o.QPS), 1)
	}
	deadline.Wrap(client, o.RequestTimeout)
	config := &Config{
		Version:           version,
		Controllers:       controllers,
		Workers:           o.Workers,
		Namespace:         o.Namespace,
		ServingAddress:    o.ServingAddress,
		SecureMetrics:     o.SecureMetrics,
		OperatorNamespace: ownNamespace(cluster.InPod()),
		ShutdownTimeout:   o.ShutdownTimeout,
		clients:           newRESTClients(client, version),
		cluster:           cluster,
		exit:              func(code int) { klog.FlushAndExit(klog.ExitFlushTimeout, code) },
	}
	for _, d := range o.table { // two controllers may have options in common, in the row of one
		if d.Options != nil {
			d.Options.ApplyTo(config)
		}
	}
	for _, address := range []*string{&config.ServingAddress, &config.SecureMetrics.Address} {
		if isOff(*address) {
			*address = ""
		}
	}
	if o.LeaderElect {
		election := o.LeaderElection
		if election.Namespace == "" {
			if election.Namespace, err = leaseNamespace(cluster.InPod()); err != nil {
				return nil, err
			}
		}
		config.LeaderElection = &election
	}
	return config, nil
}
