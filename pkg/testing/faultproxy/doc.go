// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy stands between a real process and a real API server and does what networks and API servers do on bad days.
// The process needs to know nothing of it but a kubeconfig, so what is tested is the program as it is shipped:
//
//	var journal faultproxy.Journal
//	proxy, err := faultproxy.Start("first", cluster.Config(), &journal)
//	defer proxy.Close()
//	err = proxy.WriteKubeconfig(path) // for "millwright controllers --kubeconfig path"
//
//	stop := proxy.Answer(faultproxy.Writes, apierrors.NewTooManyRequests("overloaded", 1))
//	...
//	stop()
//
// Each process gets a proxy of its own, so that each can be struck alone; they may share a [Journal], which keeps every request
// in the order of its coming, with its sender, its time and its answer.
//
// There are two kinds of faults. Those of an API server strike single requests: [Proxy.Answer] (429, 500, 410, ...),
// [Proxy.Hang] and [Proxy.CutWatches]. Those of a network strike connections, TLS handshakes and watch events included: [Proxy.Refuse],
// [Proxy.Freeze] and [Proxy.SetLatency].
//
// The proxy listens on loopback, terminates TLS with a certificate made for it, and lets nobody in who does not present the token
// in its kubeconfig: what it passes on, it passes on with the rights of the configuration that it was started with. It speaks
// HTTP/2 on both sides, as clients and API servers do.
package faultproxy
