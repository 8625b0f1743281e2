// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millwright.dev/pkg/testing/patience"
)

// testLeaderDeleted deletes the Pod of the leader: another replica leads and does its work.
func (s *suite) testLeaderDeleted(t *testing.T) {
	const pod = "led-immortalpod"
	ns := s.Namespace(t)
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "led", "IMAGE", app1)
	s.become(t, ns, "ic/led", "Ready")
	uid, leader := s.podUID(t, ns, pod), s.leader(t, core)

	s.Kubectl(t, "delete", "pod", "-n", systemNamespace, leader, "--wait=false")
	s.Kubectl(t, "delete", "pod", "-n", ns, pod)
	s.expectAnother(t, ns, "led", uid, "2")
	s.awaitOtherLeader(t, core, leader)
	s.Kubectl(t, "rollout", "status", "-n", systemNamespace, "deployment/"+core, patience.Timeout)
}

// testKubeletKilled kills kubelet: it starts again and no Pod is replaced.
func (s *suite) testKubeletKilled(t *testing.T) {
	const pod = "calm-immortalpod"
	ns := s.Namespace(t)
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "calm", "IMAGE", app1)
	s.become(t, ns, "ic/calm", "Ready")
	before := fmt.Sprint(s.podUID(t, ns, pod), processes(t, pod))

	old := s.kubelet(t)
	s.signalKubelet(t, syscall.SIGKILL)
	eventually(t, "kubelet runs again", patience.Limit, func() bool {
		now := s.kubelets(t)
		return len(now) == 1 && now[0] != old
	})
	// kubelet works again when a new Pod starts.
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "next", "IMAGE", app1)
	s.become(t, ns, "ic/next", "Ready")
	s.become(t, ns, "ic/calm", "Ready")
	if now := fmt.Sprint(s.podUID(t, ns, pod), processes(t, pod)); now != before {
		t.Errorf("got the Pod and its process %s, want still %s", now, before)
	}
}

// testNodeLost freezes kubelet: the API server considers the node lost, while its containers still run. There must never be two Pods.
func (s *suite) testNodeLost(t *testing.T) {
	const pod = "lonely-immortalpod"
	ns := s.Namespace(t)
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "lonely", "IMAGE", app1)
	s.become(t, ns, "ic/lonely", "Ready")
	uid := s.podUID(t, ns, pod)
	most := watchProcesses(t, pod)

	s.signalKubelet(t, syscall.SIGSTOP)
	frozen := true
	defer func() {
		if frozen {
			s.signalKubelet(t, syscall.SIGCONT)
		}
	}()
	s.Kubectl(t, "wait", "node/node-1", "--for=condition=Ready=Unknown", patience.Timeout)
	s.Kubectl(t, "delete", "pod", "-n", ns, pod, "--wait=false")
	eventually(t, "the status shows that the termination is waited for", patience.Limit, func() bool {
		return s.read(t, ns, "ic/lonely", `.status.conditions[?(@.type=="Progressing")].reason`) == "WaitingForTermination"
	})
	// Long after the Pod's grace period of two seconds.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if now := s.podUID(t, ns, pod); now != uid {
			t.Fatalf("got a Pod with the UID %q while the node is lost, want still %s", now, uid)
		}
	}
	s.signalKubelet(t, syscall.SIGCONT)
	frozen = false
	s.become(t, "default", "node/node-1", "Ready")
	s.expectAnother(t, ns, "lonely", uid, "2")
	if n := most(); n != 1 {
		t.Errorf("got %d processes at some time, want at most 1", n)
	}
	s.Kubectl(t, "rollout", "status", "-n", systemNamespace, "deployment/"+core, patience.Timeout)
}

// watchProcesses counts the processes of the Pod every 50 ms. The returned function ends that and returns the highest count.
func watchProcesses(t *testing.T, pod string) (most func() int32) {
	t.Helper()
	var seen atomic.Int32
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			seen.Store(max(seen.Load(), int32(len(processes(t, pod)))))
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() int32 {
		close(stop)
		<-done
		return seen.Load()
	}
}

// kubelets returns the ids of the processes of kubelet: children of the node's first process.
func (s *suite) kubelets(t *testing.T) (pids []int) {
	t.Helper()
	parent := strconv.Itoa(s.NodeInit(t))
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		content, _ := os.ReadFile(path)
		// "pid (name) state parent ...": https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
		_, rest, found := strings.Cut(string(content), " (kubelet) ")
		if fields := strings.Fields(rest); found && len(fields) > 1 && fields[1] == parent {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func (s *suite) kubelet(t *testing.T) int {
	t.Helper()
	pids := s.kubelets(t)
	if len(pids) != 1 {
		t.Fatalf("got the processes %d of kubelet, want one", pids)
	}
	return pids[0]
}

func (s *suite) signalKubelet(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.kubelet(t), signal); err != nil {
		t.Fatal(err)
	}
}
