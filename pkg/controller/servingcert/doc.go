// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servingcert manages the certificate of the farm's API server, and the caBundle of the APIServices that refer to it. Package
// certs decides; this package reads and writes.
//
// There are two Secrets: farm-operator-ca in the operator's own namespace (millwright-system) with the authorities and their keys, which only
// this controller reads, and farm-operator-serving in the namespace of the farm (--farm-namespace) with the serving certificate. The controller
// watches them, and the APIServices with the label millwright.dev/inject-ca=true. It writes the Secrets, the caBundle of those of these APIServices that refer
// to the Service farm-operator there, and events. An APIService without the label is never changed: another client may manage it, for
// instance cert-manager. If one with the label has insecureSkipTLSVerify, one patch replaces that by the caBundle.
//
// While there is no such APIService nothing is done, and no Secret is created, with one exception: if v1alpha.farm.example.com has the
// label and refers to another Service, the certificate is issued, and that APIService is not changed. So the servers of another namespace
// get ready before the APIService is changed to refer to them, and no request fails.
//
// One key is synced: the Service. A sync has the six steps that package certs describes; syncHandler has them in order. A Secret of one
// of these names that another client manages is a conflict: an event reports it, and it is not changed until it changes or is deleted.
// Servers only read their Secret. To revoke all certificates, delete the Secret of the authorities: both are replaced immediately.
//
// If --namespace is another namespace than that of the farm, nothing is watched and nothing is done.
//
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha.farm.example.com,verbs=patch
// +kubebuilder:rbac:groups="",namespace=millwright-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=millwright-system,resources=secrets,resourceNames=farm-operator-ca;farm-operator-serving,verbs=get;list;update;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package servingcert
