// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/testing/testcluster"
)

// capturedLog is all that this process logs.
type capturedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *capturedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *capturedLog) String() string {
	klog.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// captureLog of this process at a verbosity, until the test ends. The test must not be parallel.
func captureLog(t *testing.T, verbosity int) *capturedLog {
	t.Helper()
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"v": fmt.Sprint(verbosity), "logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.ClearLogger()
	captured := &capturedLog{}
	klog.SetOutput(captured)
	return captured
}

const (
	secretArgument = "--password=hunter2"
	secretOutput   = "the-key-is-swordfish"
)

// secretive prints what must not be logged, and fails if it is to.
func secretive(code int) program {
	return func(_ context.Context, c *call) int {
		c.print("%s", secretOutput)
		fmt.Fprintln(c.stderr, secretOutput)
		c.output("key", secretOutput)
		return code
	}
}

func saysNothingSecret(t *testing.T, logged, has string) {
	t.Helper()
	if !strings.Contains(logged, has) {
		t.Errorf("%q is not logged: this test looks at the wrong log", has)
	}
	for line := range strings.Lines(logged) {
		for _, secret := range []string{"hunter2", "swordfish"} {
			if strings.Contains(line, secret) {
				t.Errorf("it is logged: %s", line)
			}
		}
	}
}

// The verbosities at which client-go logs URLs, headers, and bodies.
func TestACommandIsNotLoggedAtAnyVerbosity(t *testing.T) {
	for _, verbosity := range []int{4, 6, 7, 8, 9} {
		t.Run(fmt.Sprint("v=", verbosity), func(t *testing.T) {
			cluster := testcluster.Shared(t)
			e := &actionsEnv{env: newEnv(t, cluster), account: actions.account(t, cluster)}
			bindApplicationRole(e, e.namespace)
			e.startNode(map[string]program{"works": secretive(0)})
			e.startPod("one", "main")
			logged := captureLog(t, verbosity)
			config := rest.CopyConfig(e.account.Config)
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			functions := phase.New(ctx, phase.Environment{Client: client, RESTConfig: config, Wake: func(phase.ID) {}})
			defer functions.Wait()
			defer stop()
			exec, made := functions.Get("KubeExec"), phase.Call{ID: phase.ID{Namespace: e.namespace, Name: "x", UID: "x"}, Args: map[string]any{
				"namespace": e.namespace, "pod": "one", "container": "main", "command": []any{"works", secretArgument},
			}}
			if made.Intent, err = exec.Validate(ctx, made); err != nil {
				t.Fatal(err)
			}
			if _, err := exec.Start(ctx, made); err != nil {
				t.Fatal(err)
			}
			e.eventually(func() string {
				if found, err := exec.Poll(ctx, made); err != nil || found.State != phase.Succeeded || found.Output["key"] != secretOutput {
					return fmt.Sprintf("it is %s %s: %v", found.State, found.Message, err)
				}
				return ""
			})
			if ran := e.node.executed(); len(ran) != 1 || !strings.Contains(ran[0], secretArgument) {
				t.Errorf("what was run is %q", ran)
			}
			has := "" // nothing is said below
			if verbosity >= 6 {
				has = "/pods/one/exec"
			}
			saysNothingSecret(t, logged.String(), has)
		})
	}
}

// All of the operator at the highest verbosity at which client-go logs no bodies: Pods, commands, failures and their events.
func TestWhatPhasesPrintAndRunIsNotInTheLogOfTheOperator(t *testing.T) {
	cluster := testcluster.Shared(t)
	e := &actionsEnv{env: newEnv(t, cluster), account: actions.account(t, cluster)}
	bindInNamespace(e.env, actions, e.account)
	e.startNode(map[string]program{"works": secretive(0), "fails": secretive(3)})
	e.startPod("one", "main")
	logged := captureLog(t, 6)
	// Not behind a proxy, whose own transport would log.
	kubeconfig := e.account.WriteKubeconfig(t)
	stop := runManagerWith(t, func(options *manager.Options) {
		options.Kubeconfig, options.Namespace, options.Controllers = kubeconfig, e.namespace, actions.controllers(t)
	})
	for _, command := range []string{"works", "fails"} {
		e.goes("exec-"+command, "  phases: ["+execs("exec", command+", '"+secretArgument+"'", "")+"]\n")
		e.goes("task-"+command, "  phases: [{func: KubeTask, name: task, args: {namespace: $NS, image: "+command+", command: [go, '"+secretArgument+"']}}]\n")
	}
	for _, name := range []string{"exec-works", "task-works", "exec-fails", "task-fails"} {
		set := e.awaitEnd(name)
		if works := strings.HasSuffix(name, "works"); works != (set.Status.State == "complete") || !works && !strings.Contains(set.Status.Error.Message, secretOutput) {
			t.Errorf("%s has ended as %s", name, summary(set))
		}
	}
	stop()
	saysNothingSecret(t, logged.String(), "/exec")
}
