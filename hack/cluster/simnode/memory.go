package simnode

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podRange is where the addresses of Pods come from. Nothing answers there.
var podRange = netip.MustParsePrefix("10.244.0.0/16")

// addresses is how many Pods fit into podRange: its first address is that of the network.
const addresses = 1<<16 - 1

// memory holds what is known about Pods in addition to the API: exact times, and the address that a Pod is about to get.
type memory struct {
	mu   sync.Mutex
	pods map[types.UID]*remembered
	used map[netip.Addr]types.UID
	last netip.Addr
}

type remembered struct {
	address           netip.Addr
	changed, deletion time.Time
}

func newMemory() *memory {
	return &memory{pods: map[types.UID]*remembered{}, used: map[netip.Addr]types.UID{}, last: podRange.Addr()}
}

// see notes what the Pod shows: an address that it has already, and that it is being deleted.
func (m *memory) see(pod *corev1.Pod, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.pods[pod.UID]
	if !ok {
		r = &remembered{}
		m.pods[pod.UID] = r
	}
	if address, err := netip.ParseAddr(pod.Status.PodIP); err == nil && !r.address.IsValid() {
		r.address = address
		if podRange.Contains(address) {
			m.used[address] = pod.UID
		}
	}
	if pod.DeletionTimestamp != nil && r.deletion.IsZero() {
		r.deletion = now
	}
}

// observe adds to the Pod what is remembered about it, and finds an address for it if it has none. It returns nil if the Pod has
// been forgotten: it is gone, and was only seen in a stale cache.
func (m *memory) observe(pod *corev1.Pod, now time.Time) (*observed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.pods[pod.UID]
	if !ok {
		return nil, nil
	}
	if !r.address.IsValid() {
		address, err := m.freeAddress()
		if err != nil {
			return nil, err
		}
		r.address = address
		m.used[address] = pod.UID
	}
	return &observed{pod: pod, podIP: r.address.String(), hostIP: hostIP, now: now, changed: r.changed, deletion: r.deletion}, nil
}

// change notes when the Pod's containers changed.
func (m *memory) change(uid types.UID, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.pods[uid]; ok {
		r.changed = at
	}
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.pods[uid]; ok && m.used[r.address] == uid {
		delete(m.used, r.address)
	}
	delete(m.pods, uid)
}

// freeAddress goes round the range, so that an address is not given out again soon.
func (m *memory) freeAddress() (netip.Addr, error) {
	address := m.last
	for range addresses {
		if address = address.Next(); !podRange.Contains(address) {
			address = podRange.Addr().Next()
		}
		if _, taken := m.used[address]; !taken {
			m.last = address
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %s are in use", podRange)
}
