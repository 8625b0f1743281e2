// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servingcert keeps the certificate of the farm's API server: a Secret with a certificate authority and what it has signed, and
// the caBundle of the APIServices that lead there. Package certs decides; this one reads and writes.
//
// It watches the APIServices with the label millwright.dev/inject-ca=true, and the one Secret default/farm-operator-serving. It writes that
// Secret, the caBundle of those of these APIServices that are for Service default/farm-operator, and events. An APIService without the label
// is never touched: somebody else may see to it, such as cert-manager. One with the label that tells clients to verify nothing
// (insecureSkipTLSVerify) is made to tell them what to trust, in one patch. While there is no such APIService nothing is done, and no Secret
// made.
//
// One key is synced: the Service. A sync is the six steps that package certs describes; sync.go has them in their order. A Secret
// of that name that somebody else keeps is a conflict: an event tells it, and it is left alone until it changes or goes.
// Servers only read the Secret. Whoever deletes it gets other authorities and another certificate at once: that is how to revoke.
//
// The farm is in the namespace default: with --namespace naming another one, nothing is watched and nothing done.
//
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha.farm.example.com,verbs=patch
// +kubebuilder:rbac:groups="",namespace=default,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=default,resources=secrets,resourceNames=farm-operator-serving,verbs=get;list;update;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package servingcert
