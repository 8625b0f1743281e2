// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"millwright.dev/hack/bench/traffic"
)

// contest is the work of one kind, done by the operator and by the bare client in turn.
type contest struct {
	*workload
	recorded         []traffic.Counts // of each phase
	recording        string           // the path of what is replayed
	operators, bares []outcome        // one of each for every repetition, side by side
	usages           []operatorUsage
}

// hold lets the operator do its work once through a proxy, for the number of its requests and for the bare client, then both
// and the others do it in turn.
func (b *bench) hold(ctx context.Context, c *contest, others ...func(context.Context) error) error {
	if err := b.record(ctx, c); err != nil {
		return fmt.Errorf("recording the operator's requests about %s: %w", c.resource.Resource, err)
	}
	return b.takeTurns(ctx, append([]func(context.Context) error{
		func(ctx context.Context) error { return b.operatorRuns(ctx, c) },
		func(ctx context.Context) error { return b.bareRuns(ctx, c) },
	}, others...))
}

// takeTurns lets the contenders do the same work in turn. Their order changes with every repetition, so that what one leaves
// behind does not always hit the same.
func (b *bench) takeTurns(ctx context.Context, contenders []func(context.Context) error) error {
	for i := range b.repetitions {
		for k := range contenders {
			if err := contenders[(i+k)%len(contenders)](ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) record(ctx context.Context, c *contest) (err error) {
	b.say("Recording the requests about %d %s", c.count, c.resource.Resource)
	proxy, kubeconfig, err := b.startProxy()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	run := &operatorRun{bench: b, objects: c.count, flags: c.flags, kubeconfig: kubeconfig, proxy: proxy}
	var recording traffic.Recording
	result, err := b.run(ctx, c.workload, func(p *population, fail func(error)) (_ contender, err error) {
		run.fail = fail
		recording.Namespace = p.namespace
		recording.Objects, err = p.identities(ctx, c.workload)
		return run, err
	})
	if err != nil {
		return err
	}
	recording.Phases = run.recorded
	for i, requests := range recording.Phases {
		c.recorded = append(c.recorded, traffic.Count(requests))
		b.say("  %s %v", c.phases[i].name, result.phases[i])
		b.say("  %s", c.recorded[i])
	}
	c.recording = filepath.Join(b.dir, c.resource.Resource+".json")
	return saveRecording(c.recording, recording)
}

// identities of the objects, as they are before anyone works on them.
func (p *population) identities(ctx context.Context, w *workload) (map[string]traffic.Identity, error) {
	client, err := metadata.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(w.resource).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the %s of namespace %s: %w", w.resource.Resource, p.namespace, err)
	}
	identities := map[string]traffic.Identity{}
	for i := range list.Items {
		object := &list.Items[i]
		identities[object.Name] = traffic.Identity{UID: object.UID, ResourceVersion: object.ResourceVersion}
	}
	return identities, nil
}

// startProxy returns a proxy that records, with a kubeconfig for it.
func (b *bench) startProxy() (proxy *traffic.Proxy, kubeconfig string, err error) {
	if proxy, err = traffic.StartProxy(b.config); err != nil {
		return nil, "", err
	}
	// The client needs no credentials: the proxy has them.
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: proxy.URL}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	kubeconfig = filepath.Join(b.dir, "proxy.kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return nil, "", errors.Join(err, proxy.Close())
	}
	return proxy, kubeconfig, nil
}

func (b *bench) operatorRuns(ctx context.Context, c *contest) error {
	run := &operatorRun{bench: b, objects: c.count, flags: c.flags, kubeconfig: b.kubeconfig()}
	result, err := b.run(ctx, c.workload, func(_ *population, fail func(error)) (contender, error) {
		run.fail = fail
		return run, nil
	})
	if err != nil {
		return fmt.Errorf("a run of the operator: %w", err)
	}
	result.clientCPU = run.usage.cpuSeconds
	c.operators = append(c.operators, result)
	c.usages = append(c.usages, run.usage)
	b.sayRun("operator", c, result)
	return nil
}

func (b *bench) bareRuns(ctx context.Context, c *contest) error {
	var child *replay
	result, err := b.run(ctx, c.workload, func(p *population, fail func(error)) (_ contender, err error) {
		child, err = b.startReplay(ctx, p, c, fail)
		return child, err
	})
	if err != nil {
		return fmt.Errorf("a run of the bare client: %w", err)
	}
	result.clientCPU = child.cpuSeconds()
	c.bares = append(c.bares, result)
	b.sayRun("bare client", c, result)
	return nil
}

func (b *bench) sayRun(who string, c *contest, o outcome) {
	b.say("%s, CPU %.2f s", who, o.clientCPU)
	for i, phase := range o.phases {
		b.say("  %s %v", c.phases[i].name, phase)
	}
}
