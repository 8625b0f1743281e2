// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strconv"
	"syscall"
	"testing"

	"millwright.dev/pkg/testing/patience"
)

const immortalContainer = `
apiVersion: immortalcontainers.flugel.it/v1alpha1
kind: ImmortalContainer
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  image: "IMAGE"
  backoff: {initialSeconds: 1, maxSeconds: 5}
  template:
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: acontainer
        readinessProbe:
          httpGet: {path: /, port: 8080}
          periodSeconds: 1
`

func (s *suite) testImmortalContainer(t *testing.T) {
	const pod = "web-immortalpod"
	ns := s.Namespace(t)
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "web", "IMAGE", app1)
	s.become(t, ns, "ic/web", "Ready")
	contains(t, "kubectl logs", s.Kubectl(t, "logs", "-n", ns, pod), "version 1 serves in "+pod)
	uid := s.podUID(t, ns, pod)

	// kubelet restarts a killed process in the same Pod.
	kill(t, processes(t, pod))
	eventually(t, "the container was restarted", patience.Limit, func() bool {
		return s.read(t, ns, "pod/"+pod, ".status.containerStatuses[0].restartCount") == "1"
	})
	s.become(t, ns, "ic/web", "Ready")
	if now := s.podUID(t, ns, pod); now != uid {
		t.Errorf("got a Pod with the UID %s, want still %s", now, uid)
	}
	contains(t, "kubectl logs --previous", s.Kubectl(t, "logs", "-n", ns, pod, "--previous"), "version 1 serves")

	// A Pod is replaced when it is deleted, when it has completed, and when it is out of date.
	s.Kubectl(t, "delete", "pod", "-n", ns, pod)
	uid = s.expectAnother(t, ns, "web", uid, "2")
	s.exit(t, ns, pod, 0)
	uid = s.expectAnother(t, ns, "web", uid, "3")
	if got := s.read(t, ns, "ic/web", ".status.lastTermination.reason"); got != "Completed" {
		t.Errorf("got the last termination's reason %q, want %q", got, "Completed")
	}
	if got := s.read(t, ns, "ic/web", ".status.lastTermination.exitCode"); got != "0" {
		t.Errorf("got the last termination's exit code %q, want 0", got)
	}
	s.Kubectl(t, "patch", "-n", ns, "ic/web", "--type=merge", "-p", `{"spec":{"image":"`+app2+`"}}`)
	s.expectAnother(t, ns, "web", uid, "4")
	contains(t, "kubectl logs", s.Kubectl(t, "logs", "-n", ns, pod), "version 2 serves in "+pod)

	contains(t, "kubectl describe", s.Kubectl(t, "describe", "-n", ns, "ic/web"), "Started", "Terminated", "Replaced", "immortalcontainer")
	contains(t, "kubectl get", s.Kubectl(t, "get", "-n", ns, "ic"), "NAME", "READY", "True", pod)
}

// expectAnother waits until the ImmortalContainer is ready with another Pod, checks the number of its starts, and returns the Pod's UID.
func (s *suite) expectAnother(t *testing.T, namespace, name, uid, starts string) string {
	t.Helper()
	now := ""
	eventually(t, "there is another Pod", patience.Limit, func() bool {
		now = s.podUID(t, namespace, name+"-immortalpod")
		return now != "" && now != uid
	})
	s.become(t, namespace, "pod/"+name+"-immortalpod", "Ready")
	s.become(t, namespace, "ic/"+name, "Ready")
	if got := s.read(t, namespace, "ic/"+name, ".status.startTimes"); got != starts {
		t.Errorf("got %s starts, want %s", got, starts)
	}
	return now
}

// exit ends the program in the Pod by a request, which fails because the program breaks the connection.
func (s *suite) exit(t *testing.T, namespace, pod string, code int) {
	t.Helper()
	s.KubectlFails(t, "get", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+":8080/proxy/exit?code="+strconv.Itoa(code))
}

// kill kills the only process of the list.
func kill(t *testing.T, pids []string) {
	t.Helper()
	if len(pids) != 1 {
		t.Fatalf("got the processes %q, want one", pids)
	}
	pid, err := strconv.Atoi(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
