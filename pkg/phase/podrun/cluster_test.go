// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podCluster is an API server with Pods that checks UIDs, as a real one does.
type podCluster struct {
	t      *testing.T
	client *fake.Clientset

	mu     sync.Mutex
	made   int
	logs   map[string]string // by container
	logErr error
	denied map[string]error // by verb and resource
	// ran are the UIDs of the Pods that were released.
	ran []types.UID
}

func newPodCluster(t *testing.T, objects ...runtime.Object) *podCluster {
	c := &podCluster{t: t, client: fake.NewClientset(objects...), logs: map[string]string{}, denied: map[string]error{}}
	c.client.PrependReactor("*", "*", c.react)
	return c
}

func (c *podCluster) react(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := action.GetResource().Resource
	if sub := action.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	if err := c.denied[action.GetVerb()+" "+resource]; err != nil {
		return true, nil, err
	}
	if resource == "pods/log" {
		options := action.(clienttesting.GenericAction).GetValue().(*corev1.PodLogOptions)
		return true, &runtime.Unknown{Raw: []byte(c.logs[options.Container])}, c.logErr
	}
	if resource != "pods" {
		return false, nil, nil
	}
	switch action := action.(type) {
	case clienttesting.CreateAction:
		if pod := action.GetObject().(*corev1.Pod); pod.UID == "" {
			c.made++
			pod.UID = types.UID(fmt.Sprintf("uid-%d", c.made))
		}
	case clienttesting.PatchAction:
		var patch struct {
			Metadata struct {
				UID types.UID `json:"uid"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(action.GetPatch(), &patch); err != nil {
			c.t.Error(err)
		}
		there, err := c.there(action.GetNamespace(), action.GetName())
		switch {
		case err != nil:
			return true, nil, err
		case patch.Metadata.UID != there.UID:
			immutable := field.Invalid(field.NewPath("metadata", "uid"), patch.Metadata.UID, "field is immutable")
			return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), action.GetName(), field.ErrorList{immutable})
		case gated(there):
			c.ran = append(c.ran, there.UID)
		}
	case clienttesting.DeleteActionImpl:
		there, err := c.there(action.GetNamespace(), action.GetName())
		if err != nil {
			return true, nil, err
		}
		if want := action.DeleteOptions.Preconditions; want == nil || *want.UID != there.UID {
			return true, nil, apierrors.NewConflict(corev1.Resource("pods"), action.GetName(), fmt.Errorf("UID in precondition"))
		}
	}
	return false, nil, nil
}

func (c *podCluster) there(namespace, name string) (*corev1.Pod, error) {
	object, err := c.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), namespace, name)
	if err != nil {
		return nil, err
	}
	return object.(*corev1.Pod), nil
}

// deny makes requests fail with an error; nil ends that.
func (c *podCluster) deny(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied[what] = err
}

func (c *podCluster) print(container, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs[container] = text
}

// count returns the number of requests since the test began.
func (c *podCluster) count(verb, resource string) (n int) {
	for _, action := range c.client.Actions() {
		name := action.GetResource().Resource
		if sub := action.GetSubresource(); sub != "" {
			name += "/" + sub
		}
		if action.GetVerb() == verb && name == resource {
			n++
		}
	}
	return n
}

// pods returns the existing Pods, by namespace and name.
func (c *podCluster) pods() []corev1.Pod {
	c.t.Helper()
	list, err := c.client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

// delete deletes a Pod.
func (c *podCluster) delete(pod *corev1.Pod) {
	c.t.Helper()
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if err := c.client.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, options); err != nil {
		c.t.Fatal(err)
	}
}

// update updates the only Pod.
func (c *podCluster) update(change func(*corev1.Pod)) {
	c.t.Helper()
	pods := c.pods()
	if len(pods) != 1 {
		c.t.Fatalf("there are %d Pods, want one", len(pods))
	}
	change(&pods[0])
	if _, err := c.client.CoreV1().Pods(pods[0].Namespace).UpdateStatus(context.Background(), &pods[0], metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

func podRunning(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, nil
		for _, name := range names {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
	}
}

// podExited ends the container of a Pod.
func podExited(code int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodSucceeded
		reason := "Completed"
		if code != 0 {
			pod.Status.Phase, reason = corev1.PodFailed, "Error"
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: metav1.Now()},
		}}}
	}
}

// podProcess is one process of ours.
type podProcess struct {
	*Runs
	c     *podCluster
	stop  func()
	woken map[phase.ID]int
	mu    *sync.Mutex
	log   func() string
}

func (c *podCluster) process() *podProcess {
	logger := ktesting.NewLogger(c.t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	p := &podProcess{c: c, woken: map[phase.ID]int{}, mu: &sync.Mutex{}}
	p.log = func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
	p.Runs = New(ctx, phase.Environment{Client: c.client, ServiceAccount: "runner", Wake: func(id phase.ID) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.woken[id]++
	}})
	p.stop = sync.OnceFunc(func() {
		cancel()
		p.Wait()
	})
	c.t.Cleanup(p.stop)
	return p
}

// Get returns the function with this name.
func (p *podProcess) Get(name string) *Function {
	return p.Function(map[string]func(context.Context, phase.Call) (Plan, error){
		"task": planTask, "careless task": planCarelessTask, "two containers": planTwoContainers,
	}[name])
}

// planTask is the Pod of one container that runs a command.
func planTask(_ context.Context, call phase.Call) (Plan, error) {
	var args blueprint.KubeTaskArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return Plan{}, phase.Failf("%v", err)
	}
	return Plan{
		Prefix: "kanister-job-", Namespace: args.Namespace, Main: MainContainer, Args: args.PodArgs, Override: call.Action.PodOverride,
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{NewContainer(MainContainer, args.Image, args.Command)},
		},
	}, nil
}

// planCarelessTask is a task that succeeds although its Pod fails.
func planCarelessTask(ctx context.Context, call phase.Call) (Plan, error) {
	plan, err := planTask(ctx, call)
	plan.IgnoreFailure = true
	return plan, err
}

// planTwoContainers is a task with a container named aside.
func planTwoContainers(ctx context.Context, call phase.Call) (Plan, error) {
	plan, err := planTask(ctx, call)
	plan.Spec.Containers = append(plan.Spec.Containers, NewContainer("aside", "i", []string{"c"}))
	return plan, err
}

// wakes returns the number of wake-ups since the last call.
func (p *podProcess) wakes(id phase.ID) int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.woken[id]
	delete(p.woken, id)
	return n
}

// podTestCall is one call with its intent, as the controller records it.
type podTestCall struct {
	phase.Call
	t        *testing.T
	function string
}

var testID = phase.ID{Namespace: "apps", Name: "backup-x", UID: "5a11", Action: 0, Phase: 1}

func newPodTestCall(t *testing.T, function string, args map[string]any) *podTestCall {
	return &podTestCall{t: t, function: function, Call: phase.Call{ID: testID, Action: phase.Action{Namespace: "apps"}, Args: args, StartTime: time.Now()}}
}

func taskCall(t *testing.T) *podTestCall {
	return newPodTestCall(t, "task", map[string]any{"image": "tools", "command": []any{"sh", "-c", "work"}})
}

// validate records the intent, as the controller does.
func (c *podTestCall) validate(p *podProcess) {
	c.t.Helper()
	intent, err := p.Get(c.function).Validate(c.t.Context(), c.Call)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Intent = intent
}

func (c *podTestCall) start(p *podProcess) phase.Observation {
	c.t.Helper()
	found, err := p.Get(c.function).Start(c.t.Context(), c.Call)
	if err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
	return found
}

func (c *podTestCall) poll(p *podProcess) phase.Observation {
	c.t.Helper()
	found, err := p.Get(c.function).Poll(c.t.Context(), c.Call)
	if err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
	return found
}

func (c *podTestCall) cancel(p *podProcess) {
	c.t.Helper()
	if err := p.Get(c.function).Cancel(c.t.Context(), c.Call); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

// begin starts the call, until its Pod is released.
func (c *podTestCall) begin(p *podProcess) {
	c.t.Helper()
	if c.Intent == nil {
		c.validate(p)
	}
	found := c.start(p)
	podWantState(c.t, "the first start", found, phase.Ready)
	c.Intent = found.Intent
	podWantState(c.t, "the second start", c.start(p), phase.Running)
}

// finish polls until the call has ended, as a controller does.
func (c *podTestCall) finish(p *podProcess) (found phase.Observation) {
	c.t.Helper()
	for range 200 {
		if found = c.poll(p); found.State != phase.Running {
			return found
		}
		time.Sleep(time.Second)
	}
	return found
}

func podWantState(t *testing.T, what string, found phase.Observation, want phase.State) {
	t.Helper()
	if found.State != want {
		t.Fatalf("%s: the state is %q (%s), want %q", what, found.State, found.Message, want)
	}
}

func podWant[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func podWantText(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s is\n%s\nand does not have %q", what, text, part)
		}
	}
}

func podBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// withTask runs a test in a bubble, with a cluster, a process, and a task whose Pod was released.
func withTask(t *testing.T, test func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall)) {
	t.Helper()
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		p, call := c.process(), taskCall(t)
		call.begin(p)
		test(t, c, p, call)
	})
}
