// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

const (
	// authoritiesConfigMap is where kube-apiserver publishes whose client certificates count.
	authoritiesConfigMap   = "extension-apiserver-authentication"
	clientAuthority        = "client-ca-file"
	requestHeaderAuthority = "requestheader-client-ca-file"

	authoritiesPatience = 10 * time.Second
	authoritiesInterval = 10 * time.Millisecond
)

// loadAuthorities returns when the wanted authorities of client certificates are known, and keeps them up to date in the background.
// The generic server would open its port first, and answer kube-apiserver by 401 until then.
func loadAuthorities(ctx context.Context, work *background, wanted [][]byte, serving *genericapiserver.SecureServingInfo) error {
	runner, isRunner := serving.ClientCA.(dynamiccertificates.ControllerRunner)
	if !isRunner {
		return nil // there are none
	}
	work.start(func(ctx context.Context) { runner.Run(ctx, 1) })
	err := wait.PollUntilContextTimeout(ctx, authoritiesInterval, authoritiesPatience, true, func(context.Context) (bool, error) {
		loaded := serving.ClientCA.CurrentCABundleContent()
		for _, bundle := range wanted {
			if !bytes.Contains(loaded, bundle) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("loading the authorities of client certificates from ConfigMap kube-system/%s, within %s: %w", authoritiesConfigMap, authoritiesPatience, err)
	}
	return nil
}

// publishedAuthorities are what is to be loaded from the ConfigMap, unless flags say otherwise.
func publishedAuthorities(ctx context.Context, config *Config, client kubernetes.Interface) ([][]byte, error) {
	if config.Authentication.SkipInClusterLookup {
		return nil, nil
	}
	published, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authoritiesConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the authorities of client certificates: %w", err)
	}
	var wanted [][]byte
	if config.Authentication.RequestHeader.ClientCAFile == "" {
		bundle := published.Data[requestHeaderAuthority]
		if bundle == "" {
			return nil, fmt.Errorf("ConfigMap kube-system/%s has no %s: the aggregation layer of this kube-apiserver is off. Set its --requestheader-* and --proxy-client-* flags, or --requestheader-client-ca-file of this server", authoritiesConfigMap, requestHeaderAuthority)
		}
		wanted = append(wanted, bytes.TrimSpace([]byte(bundle)))
	}
	if config.Authentication.ClientCert.ClientCA == "" {
		wanted = append(wanted, bytes.TrimSpace([]byte(published.Data[clientAuthority])))
	}
	return wanted, nil
}
