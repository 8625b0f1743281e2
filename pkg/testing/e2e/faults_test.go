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
)

func (s *suite) testLeaderDeleted(t *testing.T) {
	const pod = "led-immortalpod"
	ns := s.Namespace(t)
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "led", "IMAGE", app1)
	s.become(t, ns, "ic/led", "Ready")
	uid, leader := s.podUID(t, ns, pod), s.leader(t, core)

	s.Kubectl(t, "delete", "pod", "-n", systemNamespace, leader, "--wait=false")
	s.Kubectl(t, "delete", "pod", "-n", ns, pod)
	s.expectAnother(t, ns, "led", uid, "2")
	if now := s.leader(t, core); now == leader {
		t.Errorf("%s leads still", leader)
	}
	s.Kubectl(t, "rollout", "status", "-n", systemNamespace, "deployment/"+core, "--timeout="+patience.String())
}

func (s *suite) testKubeletKilled(t *testing.T) {
	const pod = "calm-immortalpod"
	ns := s.Namespace(t)
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "calm", "IMAGE", app1)
	s.become(t, ns, "ic/calm", "Ready")
	before := fmt.Sprint(s.podUID(t, ns, pod), processes(t, pod))

	old := s.kubelet(t)
	s.signalKubelet(t, syscall.SIGKILL)
	eventually(t, "kubelet runs again", patience, func() bool {
		now := s.kubelets(t)
		return len(now) == 1 && now[0] != old
	})
	// It is at work again when Pods start.
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "next", "IMAGE", app1)
	s.become(t, ns, "ic/next", "Ready")
	s.become(t, ns, "ic/calm", "Ready")
	if now := fmt.Sprint(s.podUID(t, ns, pod), processes(t, pod)); now != before {
		t.Errorf("the Pod and its process were %s, and are %s", before, now)
	}
}

// testNodeLost freezes kubelet: for the API server the node is lost, while what runs there runs on.
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
	s.Kubectl(t, "wait", "node/node-1", "--for=condition=Ready=Unknown", "--timeout="+patience.String())
	s.Kubectl(t, "delete", "pod", "-n", ns, pod, "--wait=false")
	eventually(t, "the status says what it waits for", patience, func() bool {
		return s.read(t, ns, "ic/lonely", `.status.conditions[?(@.type=="Progressing")].reason`) == "WaitingForTermination"
	})
	// Long after the Pod's grace period of two seconds.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if now := s.podUID(t, ns, pod); now != uid {
			t.Fatalf("while the node is lost the Pod is %q, and was %s", now, uid)
		}
	}
	s.signalKubelet(t, syscall.SIGCONT)
	frozen = false
	s.become(t, "default", "node/node-1", "Ready")
	s.expectAnother(t, ns, "lonely", uid, "2")
	if n := most(); n != 1 {
		t.Errorf("at some time %d processes ran", n)
	}
	s.Kubectl(t, "rollout", "status", "-n", systemNamespace, "deployment/"+core, "--timeout="+patience.String())
}

// watchProcesses looks how many processes of the Pod there are at any time. The function ends it and returns the most.
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

// kubelets are the processes of kubelet: children of the node's first process.
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
		t.Fatalf("the kubelets are %d, want one", pids)
	}
	return pids[0]
}

func (s *suite) signalKubelet(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.kubelet(t), signal); err != nil {
		t.Fatal(err)
	}
}
