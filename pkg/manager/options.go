// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/deadline"
	"millwright.dev/pkg/kubeconfig"
	"millwright.dev/pkg/phase"
)

// Options are what the command line says.
type Options struct {
	// Kubeconfig file; "" for the ServiceAccount of the Pod.
	Kubeconfig string
	// QPS and Burst limit the requests of each client; 0 for no limit.
	QPS   float32
	Burst int
	// RequestTimeout is how long a request may wait for its answer to begin, and for it to go on.
	RequestTimeout time.Duration
	// Controllers to run, in the syntax of the flag.
	Controllers []string
	// Workers of each controller.
	Workers int
	// Namespace to work in; "" for all.
	Namespace string
	// ServingAddress is host:port; "" or "0" to serve nothing.
	ServingAddress string
	// SecureMetrics are served beside it. Its address may be "0" too.
	SecureMetrics SecureMetrics
	// TargetLabelSelector says which CompositeControllers are served; "" for all.
	TargetLabelSelector string
	// HookWorkers are those of CompositeControllers, instead of Workers.
	HookWorkers int
	// HookAnswerMemory bounds the memory of all answers of hooks in flight, as a quantity.
	HookAnswerMemory string
	// KeepManagedFields shows hooks the managedFields of objects.
	KeepManagedFields bool
	// FarmNamespace is where the API server of Llamas runs.
	FarmNamespace string
	// PhaseServiceAccount is that of Pods of phases for which nobody names one; "" for the namespace's default.
	PhaseServiceAccount string
	// ShutdownTimeout is how long controllers may take to stop.
	ShutdownTimeout time.Duration
	// LeaderElect says whether another process may be at work.
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
		Controllers:      []string{"*"},
		FarmNamespace:    defaultFarmNamespace,
		Workers:          defaultWorkers,
		HookWorkers:      defaultWorkers,
		HookAnswerMemory: "256Mi",
		RequestTimeout:   deadline.Default,
		ServingAddress:   "127.0.0.1:8080",
		ShutdownTimeout:  15 * time.Second,
		LeaderElect:      true,
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
	fs.IntVar(&o.Workers, "workers", o.Workers, "How many objects each controller works on at the same time. For CompositeControllers see --hook-workers.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "The only namespace to work in; empty for all.")
	fs.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", o.ShutdownTimeout, "How long controllers may take to finish what they have begun when the process is asked to stop.")

	fs = groups.FlagSet("hooks")
	fs.StringVar(&o.TargetLabelSelector, "target-label-selector", o.TargetLabelSelector, "The label selector of the CompositeControllers to serve; empty for all. Processes that share them out need a Lease each.")
	fs.IntVar(&o.HookWorkers, "hook-workers", o.HookWorkers, "The workers for all CompositeControllers together. For each of them, eight parents are worked on at the same time, most of which wait for a hook, and two calls to one host.")
	fs.StringVar(&o.HookAnswerMemory, "hook-answer-memory", o.HookAnswerMemory, "The memory that the answers of all hooks may take together while they are read and followed, at least 16Mi. The body of one answer may have a sixteenth of it, and take half of it once it is decoded; a larger one is refused. More than a quarter of the limit of the process leaves too little for objects.")
	fs.BoolVar(&o.KeepManagedFields, "hook-managed-fields", o.KeepManagedFields, "Show hooks the metadata.managedFields of objects, as Metacontroller does. They are held in memory, and are about half of an object.")

	fs = groups.FlagSet("phases")
	fs.StringVar(&o.PhaseServiceAccount, "phase-service-account", o.PhaseServiceAccount, "The ServiceAccount of the Pods that phases of ActionSets make, where the Blueprint and the ActionSet name none. It has to be in the namespace of the Pod. Empty: what the API server gives such a Pod, which is 'default'; never that of the operator.")

	fs = groups.FlagSet("certificate")
	fs.StringVar(&o.FarmNamespace, "farm-namespace", o.FarmNamespace, "The namespace of the Service farm-operator (the API server of Llamas) and of its certificate, the Secret farm-operator-serving. The authority that signs that is in the Secret millwright-system/farm-operator-ca.")

	fs = groups.FlagSet("API server")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "The kubeconfig file, whose current context says which cluster to work on. Empty in a Pod, which uses its ServiceAccount. The variable KUBECONFIG is not looked at.")
	fs.Float32Var(&o.QPS, "kube-api-qps", o.QPS, "Requests per second that each controller may send; 0 for no limit but the API server's own.")
	fs.IntVar(&o.Burst, "kube-api-burst", o.Burst, "Requests that each controller may send at once beyond --kube-api-qps; 0 for as many as it says.")

	fs.DurationVar(&o.RequestTimeout, "kube-api-timeout", o.RequestTimeout, "How long a request may wait until its answer begins, and between two parts of the answer. Logs that are followed and commands in containers have no limit. Longer than the API server's own --request-timeout, which is 60s by default.")

	fs = groups.FlagSet("serving")
	fs.StringVar(&o.ServingAddress, "serving-address", o.ServingAddress, "host:port of /healthz, /livez and /readyz, and of /metrics unless --metrics-address serves it. Port 0 takes a free one, which is logged. Empty or 0 serves nothing.")
	fs.StringVar(&o.SecureMetrics.Address, "metrics-address", o.SecureMetrics.Address, "host:port of /metrics over HTTPS, for those whom the API server lets get that path (TokenReview and SubjectAccessReview). Empty or 0: --serving-address serves /metrics, to everyone who reaches it.")
	fs.StringVar(&o.SecureMetrics.CertFile, "metrics-tls-cert-file", o.SecureMetrics.CertFile, "PEM file of the certificate for --metrics-address, read again when it changes. Empty: self-signed, made anew by each process.")
	fs.StringVar(&o.SecureMetrics.KeyFile, "metrics-tls-key-file", o.SecureMetrics.KeyFile, "PEM file of the key for --metrics-tls-cert-file.")

	fs = groups.FlagSet("leader election")
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Work only while holding a Lease, so that of several processes one works and the others stand by.")
	election := &o.LeaderElection
	fs.StringVar(&election.Name, "leader-elect-lease-name", election.Name, "The Lease's name. Processes that run different controllers need different ones.")
	fs.StringVar(&election.Namespace, "leader-elect-lease-namespace", election.Namespace, "The Lease's namespace; empty for the Pod's own, and for 'default' with --kubeconfig.")
	fs.DurationVar(&election.LeaseDuration, "leader-elect-lease-duration", election.LeaseDuration, "How long to wait for a leader that does not renew its Lease.")
	fs.DurationVar(&election.RenewDeadline, "leader-elect-renew-deadline", election.RenewDeadline, "When a leader that cannot renew its Lease ends. Less than the lease duration.")
	fs.DurationVar(&election.RetryPeriod, "leader-elect-retry-period", election.RetryPeriod, "The pause between two renewals.")
	return groups
}

// Validate tells what is wrong with the options, all of it in one line.
func (o *Options) Validate() error {
	var errs []error
	invalid := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := selectControllers(o.table, o.Controllers); err != nil {
		errs = append(errs, err)
	}
	if o.Workers < 1 {
		invalid("--workers=%d: at least one is needed", o.Workers)
	}
	if o.HookWorkers < 1 {
		invalid("--hook-workers=%d: at least one is needed", o.HookWorkers)
	}
	errs = append(errs, o.otherMeanings()...)
	if problems := validation.IsDNS1123Label(o.Namespace); o.Namespace != "" && len(problems) > 0 {
		invalid("--namespace=%q is not the name of a namespace: %s", o.Namespace, problems[0])
	}
	if problems := validation.IsDNS1123Label(o.FarmNamespace); len(problems) > 0 {
		invalid("--farm-namespace=%q is not the name of a namespace: %s", o.FarmNamespace, problems[0])
	}
	if o.QPS < 0 || o.Burst < 0 {
		invalid("--kube-api-qps and --kube-api-burst must not be negative; 0 is no limit")
	}
	if o.QPS == 0 && o.Burst > 0 {
		invalid("--kube-api-burst=%d has no effect without --kube-api-qps", o.Burst)
	}
	if o.RequestTimeout < time.Second {
		invalid("--kube-api-timeout=%s: it must be at least a second", o.RequestTimeout)
	}
	if err := validateAddress("--serving-address", o.ServingAddress); err != nil {
		errs = append(errs, err)
	}
	if err := validateAddress("--metrics-address", o.SecureMetrics.Address); err != nil {
		errs = append(errs, err)
	}
	if m := o.SecureMetrics; (m.CertFile == "") != (m.KeyFile == "") {
		invalid("--metrics-tls-cert-file and --metrics-tls-key-file go together: give both, or none")
	} else if m.CertFile != "" && isOff(m.Address) {
		invalid("--metrics-tls-cert-file has no effect without --metrics-address")
	}
	if _, err := labels.Parse(o.TargetLabelSelector); err != nil {
		invalid("--target-label-selector=%q is not a label selector: %w", o.TargetLabelSelector, err)
	}
	if memory, err := resource.ParseQuantity(o.HookAnswerMemory); err != nil || memory.Value() < minHookAnswerMemory {
		invalid("--hook-answer-memory=%q is not a quantity of bytes from 16Mi on, as in 256Mi", o.HookAnswerMemory)
	}
	if problems := validation.IsDNS1123Subdomain(o.PhaseServiceAccount); o.PhaseServiceAccount != "" && len(problems) > 0 {
		invalid("--phase-service-account=%q is not the name of a ServiceAccount: %s", o.PhaseServiceAccount, problems[0])
	}
	if slices.Contains(phase.OperatorAccounts(), o.PhaseServiceAccount) {
		invalid("--phase-service-account=%s is an account of the operator: no phase may have its rights; name another one", o.PhaseServiceAccount)
	}
	if o.ShutdownTimeout <= 0 {
		invalid("--shutdown-timeout=%s: it must be positive", o.ShutdownTimeout)
	}
	if o.LeaderElect {
		errs = append(errs, o.LeaderElection.validate()...)
	}
	return oneLine(errs)
}

// minHookAnswerMemory is less than what makes sense, in bytes: bodies may have 1 MiB with it.
const minHookAnswerMemory = 16 << 20

func oneLine(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	messages := make([]string, 0, len(errs))
	for _, err := range errs {
		messages = append(messages, err.Error())
	}
	return errors.New(strings.Join(messages, "; "))
}

// isOff tells whether an address says that nothing is to be served.
func isOff(address string) bool { return address == "" || address == "0" }

func validateAddress(flag, address string) error {
	if isOff(address) {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s=%q is not host:port, as in 127.0.0.1:8080, or :8080 for all interfaces", flag, address)
	}
	return nil
}

func (l LeaderElection) validate() (errs []error) {
	if problems := validation.IsDNS1123Subdomain(l.Name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-name=%q is not the name of a Lease: %s", l.Name, problems[0]))
	}
	if problems := validation.IsDNS1123Label(l.Namespace); l.Namespace != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-namespace=%q is not the name of a namespace: %s", l.Namespace, problems[0]))
	}
	if l.LeaseDuration < time.Second || l.LeaseDuration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration=%s: a Lease lasts whole seconds, at least one", l.LeaseDuration))
	}
	if l.LeaseDuration <= l.RenewDeadline {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline=%s must be less than --leader-elect-lease-duration=%s: a leader has to end before another begins", l.RenewDeadline, l.LeaseDuration))
	}
	if longest := time.Duration(leaderelection.JitterFactor * float64(l.RetryPeriod)); l.RetryPeriod <= 0 || l.RenewDeadline <= longest {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period=%s must be positive, and %.1f times it less than --leader-elect-renew-deadline=%s", l.RetryPeriod, leaderelection.JitterFactor, l.RenewDeadline))
	}
	return errs
}

// Config completes the options, which are valid. version is the program's.
func (o *Options) Config(version string) (*Config, error) {
	controllers, err := selectControllers(o.table, o.Controllers)
	if err != nil {
		return nil, err
	}
	client, err := kubeconfig.Load(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client.QPS, client.Burst = -1, 0 // no limit on our side
	if o.QPS > 0 {
		client.QPS, client.Burst = o.QPS, max(o.Burst, int(o.QPS), 1)
	}
	deadline.Wrap(client, o.RequestTimeout)
	targets, err := labels.Parse(o.TargetLabelSelector)
	if err != nil {
		return nil, err
	}
	answerMemory, err := resource.ParseQuantity(o.HookAnswerMemory)
	if err != nil {
		return nil, err
	}
	config := &Config{
		Version:           version,
		Controllers:       controllers,
		Workers:           o.Workers,
		Namespace:         o.Namespace,
		ServingAddress:    o.ServingAddress,
		SecureMetrics:     o.SecureMetrics,
		Hooks:             HookOptions{TargetSelector: targets, Workers: o.HookWorkers, AnswerMemory: answerMemory.Value()},
		Phases:            PhaseOptions{ServiceAccount: o.PhaseServiceAccount, OperatorNamespace: ownNamespace(o.Kubeconfig)},
		FarmNamespace:     o.FarmNamespace,
		KeepManagedFields: o.KeepManagedFields,
		ShutdownTimeout:   o.ShutdownTimeout,
		clients:           restClients{config: client, version: version},
		apiServer:         client.Host,
		exit:              func(code int) { klog.FlushAndExit(klog.ExitFlushTimeout, code) },
	}
	for _, address := range []*string{&config.ServingAddress, &config.SecureMetrics.Address} {
		if isOff(*address) {
			*address = ""
		}
	}
	if o.LeaderElect {
		election := o.LeaderElection
		if election.Namespace == "" {
			if election.Namespace, err = leaseNamespace(o.Kubeconfig); err != nil {
				return nil, err
			}
		}
		config.LeaderElection = &election
	}
	return config, nil
}
