// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deadline ends requests that are never answered.
//
// A proxy, a load balancer or an API server may accept a request and then send nothing. The connection stays healthy, pings included, so
// neither TCP nor HTTP/2 ends it, and client-go sets no deadline of its own: a worker that waits for the answer waits forever.
//
//	config, err := rest.InClusterConfig()
//	deadline.Wrap(config, deadline.Default)
//
// Every client that is made from the configuration then has these deadlines, each of the same length:
//
//	the answer begins     from sending the request to its status and headers
//	the body continues    from one read of the body to the next bytes. A large LIST may take as long as it needs while it makes progress
//	a watch ends          its own timeoutSeconds later, and this deadline after that. A watch may be silent for as long as it lasts
//
// A log that is followed and a connection that is upgraded (exec, attach, port-forward) have no deadline: a container may be silent for any
// time, and the kubelet sends no headers before it has something to send. The caller ends them by the context.
//
// A write that a deadline has ended may have taken effect, as after every lost answer.
package deadline
