// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hook calls the webhooks that people write operators with: it assembles requests, carries them over, and reads and
// validates the answers. The protocol is that of Metacontroller 4.17, so that hooks written for it work unchanged.
//
//	client := hook.NewClient(hook.Options{})                // one per process: connections, limits
//	sync, err := client.NewHook(ctx, hook.Config{...})      // one per hook of a controller; Close it when the controller goes
//	request := hook.NewCompositeRequest(sync.Version(), hook.CompositeRequest{...})
//	answer, err := sync.Call(ctx, parentUID, request)
//	defer answer.Release()                                  // the memory of all answers together is bounded
//	// answer.Sum is as last time, and so is all that was observed: nothing to do. Otherwise:
//	err := answer.Reserve(ctx)                              // of that memory, what decoding takes
//	rules := sync.Rules()                                   // how strict to be, and below what the parent allows
//	rules.ParentNamespace, rules.Types = ...
//	response, err := hook.DecodeComposite(answer.Body, rules)
//
// Every error of a call and of decoding is an [*Error], whose Reason fits a condition and whose text is for the author of the
// hook. RetryAfter is the delay that the hook asks for; if it is zero, the caller has its own backoff.
//
// The layers, from the wire up:
//
//	transport.go    one http.Transport per TLS identity, shared by all hooks that present it, with idle connections kept
//	hosts.go        how many calls may be under way to one host, and how many may wait
//	breaker.go      a circuit breaker: stops calling a hook that does not answer, and probes it with a growing delay, at least once a minute
//	credentials.go  TLS and Authorization from Secrets and ConfigMaps, read again for each call
//	endpoint.go     which of the shared settings are those of a URL
//	etag.go         answers that are reused if the hook answers 304
//	retryafter.go   the forms of Retry-After
//	redirect.go     which redirects are followed
//	excerpt.go      what is shown of the body of a failed answer
//	call.go         one call, from the request to the status code
//	answer.go       the bytes of an answer, bounded, and their sum
//	budget.go       the memory that all answers in flight take together
//	weight.go       how much of it an answer takes once it is decoded
//	request.go      requests, put together from stored JSON without encoding anything again
//	scan.go, fault.go       JSON read where it stands, duplicate keys found, and the way to what is wrong
//	response.go, decoder.go, child.go   what may be in an answer; nothing of one that breaks a rule is used
//	known.go        the children of one answer, of which the next one about the same parent often has the same text
//
// Nothing here is logged of bodies or credentials. The package starts no goroutines of its own, and the connections end with
// the last hook that uses them.
package hook
