// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is the aggregated API server of farm.example.com: k8s.io/apiserver without etcd, with Llamas kept as records of
// kube-apiserver and FarmPods made from its Pods. It leads nothing and caches nothing of either, so every replica serves.
//
// What happens at the start, each only when the one before has succeeded, so that whoever gets a connection gets an answer:
//
//  1. the rights of the ServiceAccount are checked, and those that are missing are told by name (rights.go);
//  2. the serving certificate is there: from a Secret, from files, or self-signed in memory (certificate.go);
//  3. the authorities of client certificates are loaded (authorities.go), without which kube-apiserver's requests would get 401;
//  4. connections are accepted (front.go).
//
// And at the end (drain.go): /readyz fails at once, requests are served on for --shutdown-delay-duration, and half-way through it
// connections are asked to move; then watches end, and what is under way is finished.
package apiserver
