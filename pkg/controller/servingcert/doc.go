// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servingcert keeps the certificate of the farm's API server, and the caBundle of the APIServices that lead there. Package certs
// decides; this one reads and writes.
//
// It keeps two Secrets: millwright-system/farm-operator-ca with the authorities and their keys, which this controller alone reads, and
// farm-operator-serving in the namespace of the farm (--farm-namespace) with what servers show. It watches them, and the APIServices with
// the label millwright.dev/inject-ca=true. It writes the Secrets, the caBundle of those of these APIServices that are for the Service
// farm-operator there, and events. An APIService without the label is never changed: another client may keep it, such as cert-manager.
// One with the label by which clients verify nothing (insecureSkipTLSVerify) is given the caBundle instead, in one patch.
//
// While there is no such APIService nothing is done, and no Secret made, with one exception: where v1alpha.farm.example.com has the label
// and leads to another Service, the certificate is made, and that APIService is left alone. So the servers of another namespace get ready
// before the APIService is made to lead there, and no request fails.
//
// One key is synced: the Service. A sync is the six steps that package certs describes; syncHandler has them in their order. A Secret
// of one of these names that another client keeps is a conflict: it is reported by an event, and left alone until it changes or is deleted.
// Servers only read their Secret. Deleting that of the authorities replaces them and the certificate immediately: that is how to revoke.
//
// With --namespace naming another namespace than that of the farm, nothing is watched and nothing done.
//
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha.farm.example.com,verbs=patch
// +kubebuilder:rbac:groups="",namespace=millwright-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=millwright-system,resources=secrets,resourceNames=farm-operator-ca;farm-operator-serving,verbs=get;list;update;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package servingcert
