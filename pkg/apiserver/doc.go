// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is the aggregated API server of farm.example.com: k8s.io/apiserver without etcd, with Llamas kept as records of
// kube-apiserver and FarmPods made from its Pods. It leads nothing and caches nothing of either, so every replica serves.
//
// A start has these steps. Each begins when the one before has succeeded, so that every accepted connection is answered:
//
//  1. the rights of the ServiceAccount are checked, and missing rights are reported by name (rights.go);
//  2. the serving certificate is obtained: from a Secret, from files, or self-signed in memory (certificate.go);
//  3. the authorities of client certificates are loaded (authorities.go), without which kube-apiserver's requests would get 401;
//  4. connections are accepted (front.go).
//
// A connection is one of kube-apiserver, with the certificate of a front proxy, or of a client that connects directly (peers.go). Each kind has its own
// HTTP server (front.go), with its own limits (limits.go). Clients that connect directly are known only when they are authenticated, and most never
// are, so all that they cost is limited: connections and what these buffer, requests that fail, requests at a time (direct.go), and requests to
// the paths that are open to all (openpaths.go).
//
// A shutdown (drain.go) begins with a failing /readyz. Requests are still served for --shutdown-delay-duration, and half-way through it
// clients are asked to move their connections. Then watches end, and the last requests are finished.
//
// The HTTP/2 front (front.go, drain.go) stays for a measured reason. 20 replicas were replaced one after the other behind a load balancer,
// with one HTTP/2 connection and 16 requests at a time, half of them creates: the way kube-apiserver asks. With the front none of 54,782
// requests failed. With the shutdown of the generic server 18 of 48,971 failed, creates that cannot be sent again, and 33 got 429 or 503:
// about one failed request for each replica of a rolling update.
package apiserver
