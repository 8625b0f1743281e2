// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"net"
)

// metacontrollerMetricsPort is the port of Metacontroller's --metrics-address, by default and in its manifests.
const metacontrollerMetricsPort = "9999"

// otherMeanings returns errors for flags that Metacontroller has too, if their values look like those for Metacontroller: they have another
// meaning here, which users would not notice. Its other flags are unknown here, see MetacontrollerFlag.
func (o *Options) otherMeanings() (errs []error) {
	if _, port, err := net.SplitHostPort(o.SecureMetrics.Address); err == nil && port == metacontrollerMetricsPort {
		errs = append(errs, invalid("metrics-address", o.SecureMetrics.Address,
			"must not have Metacontroller's port, which serves /metrics over HTTP to all clients there; here --metrics-address serves them over HTTPS to authorized clients: "+
				"use --serving-address=%s for HTTP, or another port for HTTPS", o.SecureMetrics.Address))
	}
	selected, err := selectControllers(o.table, o.Controllers)
	if err == nil && len(selected) == 1 && selected[0].Name == hookController && o.Workers != defaultWorkers {
		errs = append(errs, invalid("workers", o.Workers,
			"must not be set if only CompositeControllers run: in Metacontroller these are the workers of each CompositeController; use --hook-workers, which all of them share"))
	}
	return errs
}

// metacontrollerFlags are those of Metacontroller 4.17 that are not flags here, with what to do about it.
var metacontrollerFlags = map[string]string{
	"discovery-interval":               "remove it: changes of the APIs that the API server serves are detected",
	"cache-flush-interval":             "remove it, or set resyncPeriodSeconds of the CompositeController",
	"client-go-qps":                    "use --kube-api-qps, which has no limit by default",
	"client-go-burst":                  "use --kube-api-burst, with --kube-api-qps",
	"events-qps":                       "remove it: events are aggregated, and limited for each object",
	"events-burst":                     "remove it: events are aggregated, and limited for each object",
	"pprof-address":                    "remove it: profiles are not served",
	"leader-election":                  "use --leader-elect, which is true by default",
	"leader-election-resource-lock":    "remove it: the lock is a Lease",
	"leader-election-namespace":        "use --leader-elect-lease-namespace",
	"leader-election-id":               "use --leader-elect-lease-name",
	"health-probe-bind-address":        "use --serving-address",
	"apply-strategy":                   "remove it: only dynamic-apply is supported",
	"apply-strategy-ssa-field-manager": "remove it: server-side-apply is not supported",
	"zap-devel":                        "remove it",
	"zap-encoder":                      "use --logging-format",
	"zap-log-level":                    "use -v",
	"zap-stacktrace-level":             "remove it",
	"zap-time-encoding":                "remove it",
}

// MetacontrollerFlag returns what to do about a flag that Metacontroller has and we have not; "" for any other.
func MetacontrollerFlag(name string) string {
	advice, found := metacontrollerFlags[name]
	if !found {
		return ""
	}
	return fmt.Sprintf("--%s is a flag of Metacontroller: %s", name, advice)
}
