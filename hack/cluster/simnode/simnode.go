package simnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// parallelism is the number of Pods, and at the start of nodes, that are worked on at the same time.
const parallelism = 16

// Config is what to simulate.
type Config struct {
	// Client should have no rate limit of its own.
	Client kubernetes.Interface
	// Nodes is the number of nodes.
	Nodes int
	// Version is what the nodes give as the version of their kubelet.
	Version string
	// BesideRealNode: there is a real node too. The simulated nodes then have a taint, type=simulated:NoSchedule.
	BesideRealNode bool
	// Serving is for the logs of Pods, and for exec.
	Serving Serving
}

// simulator simulates the kubelets of a set of nodes.
type simulator struct {
	client kubernetes.Interface
	nodes  map[string]bool
	pods   corelisters.PodLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	memory *memory
}

// Run registers the nodes, removes simulated nodes of a run before that are too many, and simulates until the context ends. It
// returns when everything that it started has ended.
func Run(ctx context.Context, config Config) error {
	// Ends what is running already when a later step fails.
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	s := &simulator{
		client: config.Client,
		nodes:  map[string]bool{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, 10*time.Second),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "simulated_pods"}),
		memory: newMemory(),
	}
	defer s.queue.ShutDown()
	for i := range config.Nodes {
		s.nodes[nodeName(i+1)] = true
	}
	if err := removeSurplus(ctx, s.client, s.nodes); err != nil {
		return err
	}
	if config.Nodes == 0 {
		<-ctx.Done()
		return nil
	}

	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}),
		informers.WithTransform(withoutManagedFields))
	pods := factory.Core().V1().Pods()
	s.pods = pods.Lister()
	registration, err := pods.Informer().AddEventHandler(s.handler())
	if err != nil {
		return fmt.Errorf("watching Pods: %w", err)
	}
	factory.StartWithContext(ctx)
	running.Go(factory.Shutdown) // waits for the informers

	listener, err := config.Serving.listen()
	if err != nil {
		return err
	}
	running.Go(func() { s.serve(ctx, listener, config.Serving.Client) })
	if err := s.registerNodes(ctx, config, portOf(listener), &running); err != nil {
		return err
	}
	// Not earlier, for the addresses that existing Pods have must be known.
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	for range parallelism {
		running.Go(func() { s.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

// registerNodes registers all nodes, which are reached at the port, and keeps them alive.
func (s *simulator) registerNodes(ctx context.Context, config Config, port int32, running *sync.WaitGroup) error {
	lease := int32(leaseSeconds)
	if config.BesideRealNode {
		lease = shortLeaseSeconds
	}
	errs := make([]error, config.Nodes)
	workqueue.ParallelizeUntil(ctx, parallelism, config.Nodes, func(i int) {
		node := newNode(nodeName(i+1), config.Version, port)
		if config.BesideRealNode {
			node.Spec.Taints = []corev1.Taint{taint}
		}
		node, err := register(ctx, s.client, node)
		if err != nil {
			errs[i] = fmt.Errorf("registering node %s: %w", nodeName(i+1), err)
			return
		}
		running.Go(func() { renewLease(ctx, s.client, node.Name, node.UID, lease) })
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// handler queues the Pods of our nodes whenever they change.
func (s *simulator) handler() cache.ResourceEventHandler {
	changed := func(obj any) {
		if pod := obj.(*corev1.Pod); s.nodes[pod.Spec.NodeName] {
			s.memory.see(pod, time.Now())
			s.queue.Add(cache.MetaObjectToName(pod))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(old, obj any) {
			// One that was replaced by another of its name while the watch was cut.
			if uid := old.(*corev1.Pod).UID; uid != obj.(*corev1.Pod).UID {
				s.memory.forget(uid)
			}
			changed(obj)
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			s.memory.forget(obj.(*corev1.Pod).UID)
		},
	}
}

func (s *simulator) work(ctx context.Context) {
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		after, err := s.sync(ctx, key)
		switch {
		case err != nil && ctx.Err() == nil:
			// Another client changed the Pod: it is synced again when that change is seen here.
			if !apierrors.IsConflict(err) {
				klog.FromContext(ctx).Error(err, "Failed to simulate a Pod, will retry", "pod", key)
			}
			s.queue.AddRateLimited(key)
		case after > 0:
			s.queue.Forget(key)
			s.queue.AddAfter(key, after)
		default:
			s.queue.Forget(key)
		}
		s.queue.Done(key)
	}
}

// sync does what a kubelet would do with the Pod now, and returns when to sync it again even if it does not change.
func (s *simulator) sync(ctx context.Context, key cache.ObjectName) (after time.Duration, err error) {
	pod, err := s.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	o, err := s.memory.observe(pod, time.Now())
	if o == nil || err != nil {
		return 0, err
	}
	d := decide(*o)
	switch {
	case d.status != nil:
		// With the resourceVersion that was decided from, so that a change that was not seen, for instance a phase set by a test, is
		// not overwritten.
		updated := pod.DeepCopy()
		updated.Status = *d.status
		s.memory.change(pod.UID, o.now)
		_, err = s.client.CoreV1().Pods(key.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	case d.remove:
		options := metav1.NewPreconditionDeleteOptions(string(pod.UID))
		options.GracePeriodSeconds = ptr.To[int64](0)
		err = s.client.CoreV1().Pods(key.Namespace).Delete(ctx, key.Name, *options)
	}
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return d.after, err
}

// withoutManagedFields saves memory. An update without them leaves them as they are.
func withoutManagedFields(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return obj, nil
}
