// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/tls"
	"fmt"

	"golang.org/x/net/http2"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// dynamicTLS shows the certificates that there are now, and asks for those of clients by the authorities that there are now.
type dynamicTLS struct {
	config     *tls.Config
	controller *dynamiccertificates.DynamicServingCertificateController
	byName     []dynamiccertificates.SNICertKeyContentProvider
}

// newDynamicTLS listens to changes of the certificates in the configuration. It must be called before any of these is started.
func newDynamicTLS(config *genericapiserver.SecureServingInfo) *dynamicTLS {
	base := &tls.Config{
		MinVersion: max(config.MinTLSVersion, tls.VersionTLS12), CipherSuites: config.CipherSuites, CurvePreferences: config.CurvePreferences,
		NextProtos: []string{http2.NextProtoTLS, "http/1.1"}, VerifyConnection: limitCertificates,
	}
	if config.DisableHTTP2 {
		base.NextProtos = base.NextProtos[1:]
	}
	if config.ClientCA != nil {
		// Authentication verifies it, or goes by a token.
		base.ClientAuth = tls.RequestClientCert
	}
	controller := dynamiccertificates.NewDynamicServingCertificateController(base, config.ClientCA, config.Cert, config.SNICerts, nil)
	config.Cert.AddListener(controller)
	if config.ClientCA != nil {
		config.ClientCA.AddListener(controller)
	}
	for _, certificate := range config.SNICerts {
		certificate.AddListener(controller)
	}
	return &dynamicTLS{config: base, controller: controller, byName: config.SNICerts}
}

// run in the background, from what there is now.
func (d *dynamicTLS) run(work *background) error {
	if err := d.controller.RunOnce(); err != nil {
		return fmt.Errorf("setting up TLS: %w", err)
	}
	d.config.GetConfigForClient = d.controller.GetConfigForClient
	work.start(func(ctx context.Context) { d.controller.Run(1, ctx.Done()) })
	for _, certificate := range d.byName {
		if runner, ok := certificate.(dynamiccertificates.ControllerRunner); ok {
			work.start(func(ctx context.Context) { runner.Run(ctx, 1) })
		}
	}
	return nil
}
