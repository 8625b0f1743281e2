// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
)

// phases returns the hooks that there are, always in the same order, so that the same one of two problems is reported each time.
func (spec *Spec) phases() (phases []phase) {
	for called, enabled := range map[phase]bool{phaseCustomize: spec.customize, phaseSync: spec.sync, phaseFinalize: spec.finalize} {
		if enabled {
			phases = append(phases, called)
		}
	}
	slices.Sort(phases)
	return phases
}

// hookConfig returns the configuration of an enabled hook.
func (d *Declaration) hookConfig(called phase) hook.Config {
	configured := map[phase]*v1alpha1.Hook{phaseCustomize: d.Hooks.Customize, phaseSync: d.Hooks.Sync, phaseFinalize: d.Hooks.Finalize}[called]
	webhook := configured.Webhook
	config := hook.Config{
		Owner:   string(d.UID),
		Phase:   string(called),
		Version: hook.Version(configured.Version),
		Path:    webhook.Path,
		ETag:    etagOf(webhook.Etag),
		Access:  accessOf(webhook.WebhookAccess),
	}
	if webhook.URL != nil {
		config.URL = *webhook.URL
	}
	if s := webhook.Service; s != nil {
		config.Service = &hook.Service{Name: s.Name, Namespace: s.Namespace, Port: s.Port, Protocol: s.Protocol}
	}
	if webhook.Timeout != nil {
		config.Timeout = &webhook.Timeout.Duration
	}
	if webhook.ResponseUnMarshallMode != nil {
		config.Mode = hook.Mode(*webhook.ResponseUnMarshallMode)
	}
	for _, endpoint := range d.Endpoints {
		config.Endpoints = append(config.Endpoints, hook.Endpoint{Host: endpoint.Host, Access: accessOf(endpoint.WebhookAccess)})
	}
	return config
}

func etagOf(etag *v1alpha1.WebhookEtagConfig) *hook.ETag {
	if etag == nil || !isTrue(etag.Enabled) {
		return nil
	}
	seconds := func(n *int32) time.Duration {
		if n == nil {
			return 0
		}
		return time.Duration(*n) * time.Second
	}
	return &hook.ETag{CacheTimeout: seconds(etag.CacheTimeoutSeconds), CacheCleanup: seconds(etag.CacheCleanupSeconds)}
}

func accessOf(access v1alpha1.WebhookAccess) (a hook.Access) {
	if ca := access.CABundle; ca != nil {
		a.CABundle = &hook.CABundle{Inline: ca.Inline, SecretRef: bundleKey(ca.SecretRef), ConfigMapRef: bundleKey(ca.ConfigMapRef)}
	}
	if tls := access.ClientTLS; tls != nil {
		a.ClientTLS = &hook.ClientTLS{Namespace: tls.SecretRef.Namespace, Name: tls.SecretRef.Name, CertKey: tls.CertKey, PrivateKeyKey: tls.PrivateKeyKey}
	}
	if token := access.Authorization; token != nil {
		key := hook.KeyRef{Namespace: token.SecretRef.Namespace, Name: token.SecretRef.Name, Key: token.SecretRef.Key}
		a.Authorization = &hook.Authorization{Type: token.Type, SecretRef: key}
	}
	if basic := access.BasicAuth; basic != nil {
		a.BasicAuth = &hook.BasicAuth{
			Namespace: basic.SecretRef.Namespace, Name: basic.SecretRef.Name, UsernameKey: basic.UsernameKey, PasswordKey: basic.PasswordKey,
		}
	}
	return a
}

func bundleKey(ref *v1alpha1.CABundleKeyReference) *hook.KeyRef {
	if ref == nil {
		return nil
	}
	return &hook.KeyRef{Namespace: ref.Namespace, Name: ref.Name, Key: ref.Key}
}

// controllerJSON returns the Declaration as hooks see it: with an empty status, as Metacontroller sends it, so that a change of the status
// is never a reason for another answer.
func (d *Declaration) controllerJSON() ([]byte, error) {
	meta := metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: string(d.Kind)}
	var shown any
	switch o := d.Object.(type) {
	case *v1alpha1.CompositeController:
		clean := *o
		clean.TypeMeta, clean.ManagedFields, clean.Status = meta, nil, v1alpha1.CompositeControllerStatus{}
		shown = &clean
	case *v1alpha1.DecoratorController:
		clean := *o
		clean.TypeMeta, clean.ManagedFields, clean.Status = meta, nil, v1alpha1.DecoratorControllerStatus{}
		shown = &clean
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s for its hooks: %w", d.Kind, d.Name, err)
	}
	return text, nil
}

// decodingRules returns the rules by which an answer for the parent is decoded.
func (spec *Spec) decodingRules(of hook.Rules, parent object) hook.Rules {
	of.ParentNamespace = parent.GetNamespace()
	for _, child := range spec.children {
		of.Types = append(of.Types, hook.Type{APIVersion: child.apiVersion(), Kind: child.Kind, Namespaced: child.Namespaced})
	}
	return of
}
