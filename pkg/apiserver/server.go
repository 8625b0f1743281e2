// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"sync"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"
)

// background runs goroutines that serve no request. They run until all requests have ended, which is after the process was asked to end.
type background struct {
	ctx context.Context
	sync.WaitGroup
}

func (b *background) start(run func(context.Context)) { b.Go(func() { run(b.ctx) }) }

// Run serves until the context ends, and then until all requests have ended. The package's documentation has the order.
func Run(ctx context.Context, config *Config) error {
	config.cluster.Log(klog.FromContext(ctx))
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	work := &background{ctx: serving}
	defer work.Wait()
	defer stop()
	to, err := newClients(config.client)
	if err != nil {
		return err
	}
	server, front, err := newServer(ctx, work, config, to)
	if err != nil {
		if ctx.Err() != nil {
			return nil // a start that was called off is no failure
		}
		return err
	}
	prepared := server.PrepareRun()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	front.start(func(err error) {
		failed <- err
		cancel()
	})
	err = prepared.RunWithContext(ctx)
	front.stop()
	select {
	case err = <-failed:
	default:
	}
	return err
}

// newServer returns a server that is complete, and its front with an open port, or an error and neither.
func newServer(ctx context.Context, work *background, config *Config, to *clients) (*genericapiserver.GenericAPIServer, *front, error) {
	if err := awaitRights(ctx, to.kube, neededRights(config.Options)); err != nil {
		return nil, nil, err
	}
	certificate, err := servingCertificate(ctx, work, config, to.kube)
	if err != nil {
		return nil, nil, err
	}
	llamas, err := llamaStorage(config)
	if err != nil {
		return nil, nil, err
	}
	authorities, err := publishedAuthorities(ctx, config, to.kube)
	if err != nil {
		return nil, nil, err
	}
	listener, err := config.listen(ctx, config.Serving)
	if err != nil {
		return nil, nil, err
	}
	served := false
	defer func() {
		if !served {
			_ = listener.Close()
		}
	}()
	scheme := newScheme()
	generic, direct, err := genericConfig(config, to, certificate, listener, scheme)
	if err != nil {
		return nil, nil, err
	}
	certificates := newDynamicTLS(generic.SecureServing)
	if err := loadAuthorities(ctx, work, authorities, generic.SecureServing); err != nil {
		return nil, nil, err
	}
	if err := certificates.run(work); err != nil {
		return nil, nil, err
	}
	for _, check := range []healthz.HealthChecker{certificate.HealthCheck(0), kubeAPIServerCheck(to.kube), llamaStorageCheck(llamas)} {
		generic.AddReadyzChecks(&sharedCheck{HealthChecker: check, logger: klog.FromContext(ctx)})
	}

	server, err := generic.Complete().New("farm", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, nil, fmt.Errorf("setting up the server: %w", err)
	}
	group, err := farm(config, generic, scheme, llamas)
	if err != nil {
		return nil, nil, err
	}
	if err := server.InstallAPIGroup(group); err != nil {
		return nil, nil, fmt.Errorf("installing the API group: %w", err)
	}
	move := newMover()
	front, err := newFront(ctx, generic.SecureServing, certificates, move, direct.proxies,
		proxyLimits(generic.SecureServing.HTTP2MaxStreamsPerConnection).server(server.Handler),
		directLimits(config.directTimeout).server(direct.handler(server.Handler)))
	if err != nil {
		return nil, nil, err
	}
	server.SecureServingInfo = &genericapiserver.SecureServingInfo{Listener: newHandedListener(listener.Addr())}
	work.Go(func() {
		move.after(ctx, generic.ShutdownDelayDuration, work.ctx.Done())
		move.asked.Wait()
	})
	// Its informers end with the server, and are waited for.
	work.start(func(ctx context.Context) {
		<-ctx.Done()
		generic.SharedInformerFactory.Shutdown()
	})
	served = true
	return server, front, nil
}
