// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/utils/ptr"
)

// testNode is a node of one test, whose kubelet is in this process. Images are functions: a container with the image "dump" runs the
// program that the test has registered under that name. The same holds for commands that are executed in containers.
type testNode struct {
	*env
	name   string
	server *httptest.Server
	ctx    context.Context
	tasks  sync.WaitGroup

	mu       sync.Mutex
	programs map[string]program
	pods     map[types.UID]*nodePod
	// connections are those of all commands that were executed.
	connections []httpstream.Connection
	execs       []string // commands that were executed, as namespace/pod/container: command
	// refuseLogs returns the HTTP status of an error for requests for logs, or 0 to serve them.
	refuseLogs func(container string, follow bool) (code int)
}

// nodePod is a Pod that runs on the node.
type nodePod struct {
	pod  *corev1.Pod
	stop context.CancelFunc
	logs map[string]*containerLog
	// seen is the latest state of the Pod. The mu of the node guards it.
	seen *corev1.Pod
}

// startNode registers the node, and runs its kubelet until the test ends.
func startNode(e *env, programs map[string]program) *testNode {
	e.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &testNode{env: e, name: "node-of-" + e.namespace, ctx: ctx, programs: map[string]program{"sleep": sleeps}, pods: map[types.UID]*nodePod{}}
	n.name = n.name[:min(len(n.name), 50)] + e.namespace[len(e.namespace)-6:]
	for image, run := range programs {
		n.programs[image] = run
	}
	n.server = httptest.NewUnstartedServer(n.handler())
	n.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that a test breaks
	// The API server checks certificates of nodes.
	n.server.TLS = &tls.Config{Certificates: []tls.Certificate{signerOf(e.T, e.cluster, "ca").Issue(e.T, n.name).TLS}}
	n.server.StartTLS()
	e.Cleanup(func() {
		cancel()
		n.tasks.Wait()
		n.server.Close()
	})
	n.register()
	watched, err := e.kube.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.name).String(),
	})
	if err != nil {
		e.Fatal(err)
	}
	n.tasks.Go(func() {
		defer watched.Stop()
		for event := range watched.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				n.see(event.Type, pod)
			}
		}
	})
	return n
}

// register creates the Node, with a taint that keeps Pods of other tests away.
func (n *testNode) register() {
	n.Helper()
	address, err := url.Parse(n.server.URL)
	if err != nil {
		n.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		n.Fatal(err)
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("1k"),
	}
	_, err = n.kube.CoreV1().Nodes().Create(n.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{corev1.LabelHostname: n.name}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "of-a-test", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.Hostname()}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		if err := n.kube.CoreV1().Nodes().Delete(context.Background(), n.name, metav1.DeleteOptions{}); err != nil {
			n.Errorf("deleting Node %s: %v", n.name, err)
		}
	})
}

// podOverride returns a podOverride that schedules Pods to the node.
func (n *testNode) podOverride() map[string]any {
	return map[string]any{
		"nodeSelector": map[string]any{corev1.LabelHostname: n.name},
		"tolerations":  []any{map[string]any{"operator": "Exists"}},
	}
}

// see handles an event of the watch of the node's Pods.
func (n *testNode) see(event watch.EventType, pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.pods[pod.UID]
	switch {
	case event == watch.Deleted && known != nil:
		known.stop()
	case known != nil:
		known.seen = pod
		if pod.DeletionTimestamp != nil {
			known.stop()
		}
	case event != watch.Deleted && pod.DeletionTimestamp == nil:
		ctx, stop := context.WithCancel(n.ctx)
		started := &nodePod{pod: pod, seen: pod, stop: stop, logs: map[string]*containerLog{}}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			started.logs[c.Name] = &containerLog{changed: make(chan struct{})}
		}
		n.pods[pod.UID] = started
		n.tasks.Go(func() {
			defer stop()
			n.run(ctx, started)
		})
	}
}

// run does what a kubelet does with a Pod that is never restarted.
func (n *testNode) run(ctx context.Context, p *nodePod) {
	status := corev1.PodStatus{Phase: corev1.PodPending, StartTime: ptr.To(metav1.Now())}
	for _, c := range p.pod.Spec.InitContainers {
		status.InitContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, State: running()}}
		n.report(p, status)
		code := n.runContainer(ctx, p, c)
		status.InitContainerStatuses[0].State = terminated(code)
		if code != 0 {
			status.Phase = corev1.PodFailed
			n.report(p, status)
			return
		}
	}
	status.Phase = corev1.PodRunning
	for _, c := range p.pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: running(), Ready: true})
	}
	status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	n.report(p, status)

	type end struct{ index, code int }
	ends := make(chan end)
	for i, c := range p.pod.Spec.Containers {
		go func() { ends <- end{i, n.runContainer(ctx, p, c)} }()
	}
	status.Phase = corev1.PodSucceeded
	for range p.pod.Spec.Containers {
		ended := <-ends
		status = *status.DeepCopy()
		status.ContainerStatuses[ended.index].State, status.ContainerStatuses[ended.index].Ready = terminated(ended.code), false
		if ended.code != 0 {
			status.Phase = corev1.PodFailed
		}
		reported := status
		for _, s := range status.ContainerStatuses {
			if s.State.Running != nil {
				reported.Phase = corev1.PodRunning
			}
		}
		n.report(p, reported)
	}
	n.mu.Lock()
	deleted := p.seen.DeletionTimestamp != nil
	n.mu.Unlock()
	if deleted {
		options := metav1.NewPreconditionDeleteOptions(string(p.pod.UID))
		options.GracePeriodSeconds = ptr.To[int64](0)
		_ = n.kube.CoreV1().Pods(p.pod.Namespace).Delete(n.ctx, p.pod.Name, *options) // it may be gone
	}
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

func terminated(code int) corev1.ContainerState {
	end := &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: "Completed", StartedAt: metav1.Now(), FinishedAt: metav1.Now()}
	if code != 0 {
		end.Reason = "Error"
	}
	return corev1.ContainerState{Terminated: end}
}

// report writes the status of a Pod, if it still exists.
func (n *testNode) report(p *nodePod, status corev1.PodStatus) {
	pod := p.pod.DeepCopy()
	pod.ResourceVersion, pod.Status = "", status
	_, err := n.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(n.ctx, pod, metav1.UpdateOptions{})
	if err != nil && n.ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		n.Errorf("reporting the status of Pod %s: %v", pod.Name, err)
	}
}

func (n *testNode) runContainer(ctx context.Context, p *nodePod, c corev1.Container) (code int) {
	text := p.logs[c.Name]
	defer text.end()
	run := n.program(c.Image)
	if run == nil {
		fmt.Fprintf(text, "program %s not found\n", c.Image)
		return 127
	}
	return run(ctx, &call{pod: p.pod, container: c.Name, command: c.Command, stdout: text, stderr: text})
}

func (n *testNode) program(name string) program {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.programs[name]
}

// podOf returns the Pod of that name that runs on the node, the youngest if there are several, and nil if there is none.
func (n *testNode) podOf(namespace, name string) (found *nodePod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.pod.Namespace == namespace && p.pod.Name == name && (found == nil || p.seen.CreationTimestamp.After(found.seen.CreationTimestamp.Time)) {
			found = p
		}
	}
	return found
}

func (n *testNode) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLog)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", n.serveExec)
	return mux
}
