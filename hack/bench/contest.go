// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"millwright.dev/hack/bench/bareclient"
	"millwright.dev/hack/bench/traffic"
)

// The goals of every contest, as multiples of the bare client's time or CPU.
const (
	overheadGoal = 1.2
	overheadMost = 1.3
)

// workload is a number of objects of one kind, and what happens to them. The operator and the bare client do the same work.
type workload struct {
	resource schema.GroupVersionResource
	// prepare creates what the objects need, before them. Optional.
	prepare func(ctx context.Context, n *namespace) error
	create  func(ctx context.Context, n *namespace, name string) error
	// observe makes the observer follow the kinds of the milestones, and the events about the objects.
	observe func(ctx context.Context, n *namespace, o *observer) error
	phases  []phase
	// flags of the operator, in addition to the usual ones.
	flags []string
	// waits are what requests wait for. Optional.
	waits bareclient.Kind
	// workers is the number of objects that the operator works on concurrently, if it is not the usual one.
	workers int
	// cpuPerSyncGoal is in milliseconds of the operator's CPU, in the last phase.
	cpuPerSyncGoal float64
}

// phase of a run. The first begins with the start of the operator.
type phase struct {
	name string
	// disturb returns what makes work in this phase; nil where there is work already.
	disturb func(ctx context.Context, n *namespace) (do func() error, err error)
	// reached is what all objects must be; its time counts. The run goes on when done is reached too.
	reached, done milestone
	// events about each object, in this phase and in those before.
	events int
	// requests is the goal for one object, events included.
	requests int
}

// contender does the work of a run.
type contender interface {
	// prepare is called when the objects exist. Its time does not count.
	prepare(ctx context.Context, n *namespace) error
	// begin begins a phase, and in the first one the work.
	begin(ctx context.Context, phase int) error
	// end is called when the milestones of a phase are reached.
	end(ctx context.Context) error
	// stop ends it, also while it works.
	stop() error
	// cpuSeconds returns what its process has used.
	cpuSeconds() float64
}

// outcome of one run.
type outcome struct {
	phases []float64 // seconds until the milestone of each
	cpu    float64   // seconds, control plane and this program included
}

// contest measures the operator and the bare client, which replays a recording of the requests of this operator.
func (t *turn) contest(ctx context.Context, w *workload) error {
	key := t.operator + " " + t.scenario.name
	if t.recordings[key] == nil {
		if err := t.record(ctx, w, key); err != nil {
			return fmt.Errorf("recording the requests of the operator: %w", err)
		}
	}
	operator, bare := &operatorRun{turn: t, workload: w, kubeconfig: t.kubeconfig()}, &bareRun{turn: t, workload: w, recording: t.recordings[key]}
	outcomes := map[contender]outcome{}
	contenders := []contender{operator, bare}
	if t.number%2 == 1 { // what one leaves behind is not to affect always the other
		slices.Reverse(contenders)
	}
	for _, c := range contenders {
		result, err := t.run(ctx, w, c)
		if err != nil {
			return err
		}
		outcomes[c] = result
	}
	ours, theirs := outcomes[operator], outcomes[bare]
	for i, p := range w.phases {
		t.add(row{Name: t.title(w, p), Unit: times, Goal: overheadGoal, Most: overheadMost}, ours.phases[i]/theirs.phases[i],
			"%.2f s, the bare client %.2f s", ours.phases[i], theirs.phases[i])
	}
	t.add(row{Name: "  CPU of it, control plane included", Unit: times, Goal: overheadGoal, Most: overheadMost}.of(t), ours.cpu/theirs.cpu,
		"%.1f s, the bare client %.1f s; %.2f ms of the operator for each object", ours.cpu, theirs.cpu, milli*operator.cpuSeconds()/float64(t.size))
	last := operator.last
	t.add(row{Name: "  CPU of the operator for a sync", Unit: milliseconds, Goal: w.cpuPerSyncGoal}.of(t), milli*last[cpuSeconds]/last[syncsTotal],
		"%.1f syncs of each object", last[syncsTotal]/float64(t.size))
	return nil
}

func (t *turn) title(w *workload, p phase) string {
	return fmt.Sprintf("%s of %d %s, over the bare client", p.name, t.size, w.resource.Resource)
}

// of makes the name of a row unique that belongs to the one above it.
func (r row) of(t *turn) row {
	r.Name += " (" + t.scenario.name + ")"
	return r
}

// run lets a contender go through the phases of the workload in a namespace of its own, and removes that.
func (t *turn) run(ctx context.Context, w *workload, c contender) (result outcome, err error) {
	n, err := t.newNamespace(ctx)
	if err != nil {
		return result, err
	}
	if w.prepare != nil {
		if err := w.prepare(ctx, n); err != nil {
			return result, err
		}
	}
	if err := createObjects(ctx, t.size, func(ctx context.Context, name string) error { return w.create(ctx, n, name) }); err != nil {
		return result, err
	}
	observing, stop := context.WithCancel(ctx)
	defer stop()
	o := t.newObserver()
	if err := w.observe(observing, n, o); err != nil {
		return result, err
	}
	if err := c.prepare(ctx, n); err != nil {
		return result, err
	}
	before, err := t.sharedCPU(ctx)
	if err != nil {
		return result, errors.Join(err, c.stop())
	}
	for i, p := range w.phases {
		seconds, err := t.phase(ctx, n, i, p, c, o)
		if err != nil {
			return result, errors.Join(fmt.Errorf("%s: %w", p.name, err), c.stop())
		}
		result.phases = append(result.phases, seconds)
	}
	after, err := t.sharedCPU(ctx)
	if err := errors.Join(err, c.stop()); err != nil {
		return result, err
	}
	result.cpu = after - before + c.cpuSeconds()
	stop()
	return result, n.remove(ctx)
}

// phase lets the work of a phase be done, and waits until its milestones are reached and all events are posted.
func (t *turn) phase(ctx context.Context, n *namespace, number int, p phase, c contender, o *observer) (seconds float64, err error) {
	disturb := func() error { return nil }
	if p.disturb != nil {
		if disturb, err = p.disturb(ctx, n); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	if err := errors.Join(c.begin(ctx, number), disturb()); err != nil {
		return 0, err
	}
	reached, err := o.await(ctx, t.size, p.reached)
	if err != nil {
		return 0, err
	}
	if p.done != (milestone{}) {
		if _, err := o.await(ctx, t.size, p.done); err != nil {
			return 0, err
		}
	}
	if _, err := o.await(ctx, t.size*p.events, milestone{events, posted}); err != nil {
		return 0, err
	}
	return reached.Sub(begin).Seconds(), c.end(ctx)
}

// record lets the operator do the work through a proxy, keeps the recording, and adds the rows of its requests.
func (t *turn) record(ctx context.Context, w *workload, key string) (err error) {
	proxy, kubeconfig, err := t.startProxy()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	c := &operatorRun{turn: t, workload: w, kubeconfig: kubeconfig, proxy: proxy}
	if _, err := t.run(ctx, w, c); err != nil {
		return err
	}
	t.recordings[key] = c.recording
	before := 0
	for i, p := range w.phases {
		object, kinds, mean := mostRequests(c.recording.Phases[i], t.size)
		t.add(row{Name: "  requests of an object, at most, in the " + p.name, Goal: float64(p.requests)}.of(t), float64(len(kinds)),
			"mean %.2f; %s: %s", mean, object, listed(kinds))
		_, posts, mean := mostRequests(eventsIn(c.recording.Phases[i]), t.size)
		t.add(row{Name: "  events of an object, at most, in the " + p.name, Goal: float64(p.events - before)}.of(t), float64(len(posts)), "mean %.2f", mean)
		before = p.events
	}
	return nil
}

// eventsIn returns the requests that post events.
func eventsIn(requests []traffic.Request) (posts []traffic.Request) {
	for _, r := range requests {
		if r.Resource == events {
			posts = append(posts, r)
		}
	}
	return posts
}

// mostRequests returns the object with the most requests, their kinds, and the mean of all objects.
func mostRequests(requests []traffic.Request, objects int) (object string, kinds []string, mean float64) {
	all := map[string][]string{}
	for _, r := range requests {
		all[r.Object] = append(all[r.Object], r.Kind())
	}
	delete(all, "") // those that were sent for none, such as a list of all
	for _, name := range slices.Sorted(maps.Keys(all)) {
		mean += float64(len(all[name])) / float64(objects)
		if len(all[name]) > len(kinds) {
			object, kinds = name, all[name]
		}
	}
	return object, kinds, mean
}

// listed returns the kinds with their numbers, the most frequent first: "2 update immortalcontainers/status, 1 create pods".
func listed(kinds []string) string {
	numbers := map[string]int{}
	for _, kind := range kinds {
		numbers[kind]++
	}
	var parts []string
	for _, kind := range slices.SortedFunc(maps.Keys(numbers), func(a, b string) int { return cmp.Or(numbers[b]-numbers[a], cmp.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", numbers[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// identities returns those of the objects, before anything is done with them.
func (n *namespace) identities(ctx context.Context, w *workload) (map[string]traffic.Identity, error) {
	list, err := n.dynamic.Resource(w.resource).Namespace(n.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the %s of namespace %s: %w", w.resource.Resource, n.name, err)
	}
	identities := map[string]traffic.Identity{}
	for _, o := range list.Items {
		identities[o.GetName()] = traffic.Identity{UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
	}
	return identities, nil
}

// startProxy returns a proxy that records, and a kubeconfig for it.
func (b *bench) startProxy() (proxy *traffic.Proxy, kubeconfig string, err error) {
	if proxy, err = traffic.StartProxy(b.config); err != nil {
		return nil, "", err
	}
	config := clientcmdapi.NewConfig() // without credentials, which the proxy has
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: proxy.URL}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	kubeconfig = filepath.Join(b.dir, "proxy.kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return nil, "", errors.Join(err, proxy.Close())
	}
	return proxy, kubeconfig, nil
}
