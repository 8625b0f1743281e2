// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy is a proxy between a real process and a real API server that injects the faults of networks and of API servers.
// The process only needs the proxy's kubeconfig, so tests run the program as it is shipped:
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
// Each process has its own proxy, so that a test can choose which process has faults. Proxies may share a [Journal], which records every
// request in the order of arrival, with its sender, its time and its answer.
//
// There are two kinds of faults. Faults of an API server affect single requests: [Proxy.Answer] (429, 500, 410, ...), [Proxy.Hang] and
// [Proxy.CutWatches]. Faults of a network affect connections, TLS handshakes and watch events included: [Proxy.Refuse], [Proxy.Freeze]
// and [Proxy.SetLatency].
//
// The proxy listens on loopback, terminates TLS with a certificate made for it, and requires the token in its kubeconfig: it forwards
// requests with the rights of the configuration that it was started with. It speaks HTTP/2 on both sides, as clients and API servers do.
package faultproxy
