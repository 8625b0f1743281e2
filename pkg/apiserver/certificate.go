// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/certs"
)

// certificateName stands in logs and in /readyz.
const certificateName = "farm"

// waitingInterval is the pause between two log lines about a wait.
const waitingInterval = 30 * time.Second

// servingNames are the names in a self-signed certificate, which no client can verify anyway.
func servingNames() certs.Names {
	names := certs.Names{"localhost", "127.0.0.1"}
	for _, namespace := range []string{"millwright-system", metav1.NamespaceDefault} { // ours and the tutorial's
		names = append(names, certs.ServiceNames(namespace, "farm-operator", "cluster.local")...)
	}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return names
}

// servingCertificate returns a source that has a certificate, and keeps it up to date in the background.
func servingCertificate(ctx context.Context, work *background, config *Config, client kubernetes.Interface) (*certs.Source, error) {
	source, arrived := certs.NewSource(certificateName), make(arrival, 1)
	source.AddListener(arrived)
	pair := &config.Serving.ServerCert.CertKey
	if config.Serving.ServerCert.CertDirectory != "" {
		// It sets the pair to files of that directory, unless there is one.
		if err := config.Serving.MaybeDefaultWithSelfSignedCerts("farm-operator.millwright-system.svc", servingNames(), nil); err != nil {
			return nil, fmt.Errorf("making a certificate in the directory of --cert-dir: %w", err)
		}
	}
	switch {
	case config.ServingSecret != "":
		if err := watchSecret(work, client, config.ServingSecret, source); err != nil {
			return nil, err
		}
		return source, arrived.await(ctx, "Waiting for the Secret with the serving certificate, which the controller servingcert makes (millwright controllers), or cert-manager, or you", "secret", config.ServingSecret)
	case pair.CertFile != "":
		work.start(func(ctx context.Context) { source.RunFiles(ctx, pair.CertFile, pair.KeyFile) })
		return source, arrived.await(ctx, "Waiting for the files of the serving certificate", "certificate", pair.CertFile, "key", pair.KeyFile)
	default:
		certificate, key, err := certs.SelfSigned(servingNames(), time.Now(), rand.Reader)
		if err != nil {
			return nil, err
		}
		klog.FromContext(ctx).Info("Serving a self-signed certificate, which clients can only take without verifying it", "instead", "--serving-secret, --tls-cert-file")
		_, err = source.Update(certificate, key)
		return source, err
	}
}

// arrival receives a value when a certificate has arrived.
type arrival chan struct{}

// Enqueue implements dynamiccertificates.Listener.
func (a arrival) Enqueue() {
	select {
	case a <- struct{}{}:
	default: // one is enough
	}
}

// await returns when the first certificate has arrived, and logs the message while it has not.
func (a arrival) await(ctx context.Context, message string, keysAndValues ...any) error {
	// What is there already is not waited for.
	reminder := time.NewTimer(time.Second)
	defer reminder.Stop()
	for {
		select {
		case <-a:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-reminder.C:
			klog.FromContext(ctx).Info(message, keysAndValues...)
			reminder.Reset(waitingInterval)
		}
	}
}

// watchSecret serves the certificate of one Secret. If the Secret is deleted or invalid, the last certificate is still served.
func watchSecret(work *background, client kubernetes.Interface, of string, source *certs.Source) error {
	namespace, name, err := splitName(of)
	if err != nil {
		return fmt.Errorf("invalid --serving-secret %q: %w", of, err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	logger := klog.LoggerWithValues(klog.FromContext(work.ctx), "secret", of)
	take := func(object any) {
		secret, isSecret := object.(*corev1.Secret)
		if !isSecret {
			return
		}
		switch changed, err := source.Update(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); {
		case err != nil:
			logger.Error(err, "The Secret has no certificate that can be served, will look again when it changes")
		case changed:
			logger.Info("Loaded a new certificate")
		}
	}
	_, err = factory.Core().V1().Secrets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, updated any) { take(updated) },
		DeleteFunc: func(any) {
			logger.Info("The Secret with the serving certificate was deleted, serving the last certificate until there is another")
		},
	})
	if err != nil {
		return fmt.Errorf("watching Secret %s for the serving certificate: %w", of, err)
	}
	factory.StartWithContext(work.ctx)
	work.Go(factory.Shutdown)
	return nil
}
