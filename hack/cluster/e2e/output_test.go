package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"millwright.dev/hack/cluster/patience"
)

const talkingPods = `
apiVersion: v1
kind: Pod
metadata:
  name: talks
  annotations:
    simulated.millwright.dev/log: "one\ntwo\n"
    log.simulated.millwright.dev/helper: "I help\n"
    simulated.millwright.dev/exec: |
      - {command: greet, stdout: "hello\n"}
      - {command: fail, stderr: "it failed\n", exitCode: 3}
spec:
  containers: [{name: main, image: example.com/image}, {name: helper, image: example.com/image}]
---
apiVersion: v1
kind: Pod
metadata:
  name: ends
  annotations:
    simulated.millwright.dev/log: "1\n2\n3\n4\n"
    simulated.millwright.dev/run-seconds: "2"
spec:
  restartPolicy: Never
  containers: [{name: main, image: example.com/image}]
---
apiVersion: v1
kind: Pod
metadata: {name: silent}
spec:
  containers: [{name: main, image: example.com/image}]
`

// testOutput checks what a user sees with kubectl logs and kubectl exec of Pods on simulated nodes.
func testOutput(t *testing.T, c *cluster) {
	c.apply(t, talkingPods, "create", "-f", "-")
	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/ends")
	followed := make(chan string, 1)
	follow := exec.CommandContext(t.Context(), binary, "kubectl", "--kubeconfig", c.dir.AdminKubeconfig(), "logs", "--follow", "ends")
	go func() {
		out, err := follow.Output()
		followed <- fmt.Sprintf("%s%v", out, err)
	}()
	select {
	case log := <-followed:
		t.Errorf("the log that is followed ended before its container, with %q", log)
	case <-time.After(3 * time.Second):
	}
	c.kubectl(t, "annotate", "pod", "ends", "simulated.millwright.dev/exit-code=0")
	select {
	case log := <-followed:
		if log != "1\n2\n3\n4\n<nil>" {
			t.Errorf("the log that was followed is %q", log)
		}
	case <-time.After(patience.Limit):
		t.Error("the log that is followed did not end with its container")
	}
	if log := c.kubectl(t, "logs", "ends", "--tail=2"); log != "3\n4" {
		t.Errorf("the end of the log is %q", log)
	}

	c.kubectl(t, "wait", "--for=condition=Ready", patience.Timeout, "pod/talks", "pod/silent")
	for container, want := range map[string]string{"main": "one\ntwo", "helper": "I help"} {
		if log := c.kubectl(t, "logs", "talks", "-c", container); log != want {
			t.Errorf("the log of container %s is %q", container, log)
		}
	}
	for _, websockets := range []string{"true", "false"} {
		kubectl := func(args ...string) (stdout, errOut string, code int) {
			cmd := exec.Command(binary, append([]string{"kubectl", "--kubeconfig", c.dir.AdminKubeconfig()}, args...)...)
			cmd.Env = append(cmd.Environ(), "KUBECTL_REMOTE_COMMAND_WEBSOCKETS="+websockets)
			out, err := cmd.Output()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			}
			return string(out), stderr(err), code
		}
		if stdout, errOut, code := kubectl("exec", "talks", "-c", "main", "--", "greet", "all"); stdout != "hello\n" || code != 0 {
			t.Errorf("WebSockets %s: exec printed %q and %q, exit code %d", websockets, stdout, errOut, code)
		}
		if _, errOut, code := kubectl("exec", "talks", "-c", "main", "--", "fail"); !strings.HasPrefix(errOut, "it failed\n") || code != 3 {
			t.Errorf("WebSockets %s: exec of a command that fails printed %q, exit code %d", websockets, errOut, code)
		}
		for _, tc := range []struct {
			args []string
			want string
		}{
			{[]string{"logs", "silent"}, "Pod silent runs on a simulated node, which runs no containers. An annotation sets what its containers print:\n" +
				"kubectl annotate pod -n default silent simulated.millwright.dev/log='started'"},
			{[]string{"exec", "silent", "--", "ls"}, "kubectl annotate pod -n default silent simulated.millwright.dev/exec='[{stdout: hello}]'"},
			{[]string{"attach", "silent"}, "runs on a simulated node, which runs no containers: there is no attach"},
		} {
			if _, errOut, code := kubectl(tc.args...); code == 0 || !strings.Contains(errOut, tc.want) {
				t.Errorf("WebSockets %s: kubectl %s: exit code %d, %q, want %q", websockets, strings.Join(tc.args, " "), code, errOut, tc.want)
			}
		}
	}
	c.kubectl(t, "annotate", "pod", "silent", "simulated.millwright.dev/log=started")
	if log := c.kubectl(t, "logs", "silent"); log != "started" {
		t.Errorf("the log of a Pod that was annotated while it runs is %q", log)
	}
	c.kubectl(t, "delete", "pod", "talks", "ends", "silent", "--wait", patience.Timeout)
}
