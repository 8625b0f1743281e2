// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"millwright.dev/pkg/certs"
)

var expiration = metrics.NewGauge(&metrics.GaugeOpts{
	Subsystem: "millwright_servingcert",
	Name:      "expiration_timestamp_seconds",
	Help: "When the serving certificate of the API server of Llamas expires, in seconds since the epoch. It is renewed at two thirds of its life. " +
		"0 if there is none, and in replicas that do not lead.",
	StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(expiration) }

func publishExpiration(state certs.State) {
	if state.Serving != nil {
		expiration.Set(float64(state.Serving.Certificate.NotAfter.Unix()))
	}
}
