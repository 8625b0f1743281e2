// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"net"
)

// metacontrollerMetricsPort is the port of Metacontroller's --metrics-address, by default and in its manifests.
const metacontrollerMetricsPort = "9999"

// otherMeanings returns errors for flags that Metacontroller has too, with values that were meant for it: their meaning is another one here, which
// would not be noticed. Its other flags are unknown here, see MetacontrollerFlag.
func (o *Options) otherMeanings() (errs []error) {
	if _, port, err := net.SplitHostPort(o.SecureMetrics.Address); err == nil && port == metacontrollerMetricsPort {
		errs = append(errs, invalid("metrics-address", o.SecureMetrics.Address,
			"must not have Metacontroller's port, which serves /metrics over HTTP to all clients there; here --metrics-address serves them over HTTPS to authorized clients: "+
				"give --serving-address=%s for HTTP, or another port for HTTPS", o.SecureMetrics.Address))
	}
	selected, err := selectControllers(o.table, o.Controllers)
	if err == nil && len(selected) == 1 && selected[0].Name == hookController && o.Workers != defaultWorkers {
		errs = append(errs, invalid("workers", o.Workers,
			"must not be set where only CompositeControllers run: in Metacontroller these are the workers of each CompositeController; give --hook-workers, which all of them share"))
	}
	return errs
}

// metacontrollerFlags are those of Metacontroller 4.17 that are not flags here, with what to do about it.
var metacontrollerFlags = map[string]string{
	"discovery-interval":               "leave it out: what the API server serves is noticed when it changes",
	"cache-flush-interval":             "leave it out, or give the CompositeController a resyncPeriodSeconds",
	"client-go-qps":                    "give --kube-api-qps, which has no limit by default",
	"client-go-burst":                  "give --kube-api-burst, with --kube-api-qps",
	"events-qps":                       "leave it out: events are summed up, and limited for each object",
	"events-burst":                     "leave it out: events are summed up, and limited for each object",
	"pprof-address":                    "leave it out: there are no profiles",
	"leader-election":                  "give --leader-elect, which is true by default",
	"leader-election-resource-lock":    "leave it out: the lock is a Lease",
	"leader-election-namespace":        "give --leader-elect-lease-namespace",
	"leader-election-id":               "give --leader-elect-lease-name",
	"health-probe-bind-address":        "give --serving-address",
	"apply-strategy":                   "leave it out: dynamic-apply is what there is",
	"apply-strategy-ssa-field-manager": "leave it out: there is no server-side-apply",
	"zap-devel":                        "leave it out",
	"zap-encoder":                      "give --logging-format",
	"zap-log-level":                    "give -v",
	"zap-stacktrace-level":             "leave it out",
	"zap-time-encoding":                "leave it out",
}

// MetacontrollerFlag returns what to do about a flag that Metacontroller has and we have not; "" for any other.
func MetacontrollerFlag(name string) string {
	advice, found := metacontrollerFlags[name]
	if !found {
		return ""
	}
	return fmt.Sprintf("--%s is a flag of Metacontroller: %s", name, advice)
}
