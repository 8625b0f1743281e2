package simnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func podWithUID(uid types.UID, address string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: corev1.PodStatus{PodIP: address}}
}

func TestEveryPodHasAnAddressOfItsOwn(t *testing.T) {
	m := newMemory()
	m.see(podWithUID("existing", "10.244.0.2"), noon)
	seen := map[string]types.UID{"10.244.0.2": "existing"}
	for _, uid := range []types.UID{"a", "b", "c"} {
		pod := podWithUID(uid, "")
		m.see(pod, noon)
		for range 2 {
			o, err := m.observe(pod, noon)
			if err != nil {
				t.Fatal(err)
			}
			if other, taken := seen[o.podIP]; taken && other != uid {
				t.Errorf("%s and %s both have %s", other, uid, o.podIP)
			}
			seen[o.podIP] = uid
		}
	}
	if len(seen) != 4 {
		t.Errorf("addresses changed: %v", seen)
	}
}

func TestForgottenPodReleasesItsAddress(t *testing.T) {
	m := newMemory()
	pod := podWithUID("a", "")
	m.see(pod, noon)
	if _, err := m.observe(pod, noon); err != nil {
		t.Fatal(err)
	}
	m.forget("a")
	m.change("a", noon)
	if o, err := m.observe(pod, noon); o != nil || err != nil {
		t.Errorf("got %v, %v, want nothing", o, err)
	}
	if len(m.pods) != 0 || len(m.used) != 0 {
		t.Errorf("still remembered: %v, %v", m.pods, m.used)
	}
}

func TestAFullRangeIsAnError(t *testing.T) {
	m := newMemory()
	for {
		address, err := m.freeAddress()
		if err != nil {
			break
		}
		m.used[address] = "another"
		if len(m.used) > addresses {
			t.Fatal("more addresses than the range has")
		}
	}
	if got := len(m.used); got != addresses {
		t.Errorf("%d addresses were given out, want %d", got, addresses)
	}
}

func TestTheTimesOfAPodAreRemembered(t *testing.T) {
	m := newMemory()
	pod := podWithUID("a", "")
	m.see(pod, noon)
	m.change("a", noon.Add(time.Second))
	pod.DeletionTimestamp = &metav1.Time{Time: noon}
	m.see(pod, noon.Add(2*time.Second))
	m.see(pod, noon.Add(3*time.Second))
	o, err := m.observe(pod, noon.Add(4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if !o.changed.Equal(noon.Add(time.Second)) || !o.deletion.Equal(noon.Add(2*time.Second)) {
		t.Errorf("changed %v, deletion %v", o.changed, o.deletion)
	}
}
