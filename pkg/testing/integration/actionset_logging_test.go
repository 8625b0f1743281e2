// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/function"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

const (
	secretArgument = "--password=hunter2"
	secretOutput   = "the-key-is-swordfish"
)

// printSecrets returns a program that prints what must not be logged, and exits with the code.
func printSecrets(code int) program {
	return func(_ context.Context, c *call) int {
		c.print("%s", secretOutput)
		fmt.Fprintln(c.stderr, secretOutput)
		c.output("key", secretOutput)
		return code
	}
}

// wantNoSecrets checks that the log has this text and no secret.
func wantNoSecrets(t *testing.T, logged, has string) {
	t.Helper()
	if !strings.Contains(logged, has) {
		t.Errorf("%q is not in the log: the test reads the wrong log", has)
	}
	for line := range strings.Lines(logged) {
		for _, secret := range []string{"hunter2", "swordfish"} {
			if strings.Contains(line, secret) {
				t.Errorf("the log has a secret: %s", line)
			}
		}
	}
}

// client-go logs URLs, headers and bodies at these verbosities. A process has one verbosity, so the command is run in another process.
func TestActionSetCommandIsNotLogged(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Shared(t)
	e := &actionsEnv{env: newEnv(t, cluster), account: actions.account(t, cluster)}
	bindApplicationRole(e, e.namespace)
	e.startNode(map[string]program{"works": printSecrets(0)})
	e.startPod("one", "main")
	kubeconfig := e.account.WriteKubeconfig(t)
	for i, verbosity := range []int{4, 6, 7, 8, 9} {
		t.Run(fmt.Sprint("v=", verbosity), func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), runsCommand+"="+strings.Join([]string{kubeconfig, e.namespace, strconv.Itoa(verbosity)}, ","))
			logged, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("running the command: %v\n%s", err, logged)
			}
			if ran := e.node.executed(); len(ran) != i+1 || !strings.Contains(ran[i], secretArgument) {
				t.Errorf("commands executed: got %q, want %d with the argument", ran, i+1)
			}
			has := "" // client-go logs nothing below verbosity 6
			if verbosity >= 6 {
				has = "/pods/one/exec"
			}
			wantNoSecrets(t, string(logged), has)
		})
	}
}

// runsCommand is the variable that makes a process of this test binary run the command for TestActionSetCommandIsNotLogged. Its value is
// a kubeconfig, a namespace and a verbosity, separated by commas.
const runsCommand = "MILLWRIGHT_TEST_RUNS_COMMAND"

// runCommand runs the command as the value of the variable asks.
func runCommand(asked string) error {
	var kubeconfig, namespace, verbosity string
	if parts := strings.Split(asked, ","); len(parts) == 3 {
		kubeconfig, namespace, verbosity = parts[0], parts[1], parts[2]
	}
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	if err := flags.Set("v", verbosity); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience.Limit)
	functions := function.New(ctx, phase.Environment{Client: client, RESTConfig: config, Wake: func(phase.ID) {}})
	defer functions.Wait()
	defer stop()
	kubeExec, made := functions.Get("KubeExec"), phase.Call{ID: phase.ID{Namespace: namespace, Name: "x", UID: "x"}, Args: map[string]any{
		"namespace": namespace, "pod": "one", "container": "main", "command": []any{"works", secretArgument},
	}}
	if made.Intent, err = kubeExec.Validate(ctx, made); err != nil {
		return err
	}
	if _, err := kubeExec.Start(ctx, made); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		found, err := kubeExec.Poll(ctx, made)
		if err != nil || found.State == phase.Failed || found.State == phase.Succeeded && found.Output["key"] != secretOutput {
			return false, fmt.Errorf("command is %s %s: %w", found.State, found.Message, err)
		}
		return found.State == phase.Succeeded, nil
	})
}

// The operator runs at the highest verbosity at which client-go logs no bodies.
func TestActionSetOutputIsNotLogged(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Shared(t)
	e := &actionsEnv{env: newEnv(t, cluster), account: actions.account(t, cluster)}
	bindInNamespace(e.env, actions, e.account)
	e.startNode(map[string]program{"works": printSecrets(0), "fails": printSecrets(3)})
	e.startPod("one", "main")
	p := startProcess(t, "-v=6", "--kubeconfig", e.account.WriteKubeconfig(t), "--controllers", strings.Join(actions.controllers(t), ","),
		"--namespace", e.namespace, "--leader-elect=false", "--serving-address=")
	for _, command := range []string{"works", "fails"} {
		e.startRun("exec-"+command, "  phases: ["+execPhase("exec", command+", '"+secretArgument+"'", "")+"]\n")
		e.startRun("task-"+command, "  phases: [{func: KubeTask, name: task, args: {namespace: $NS, image: "+command+", command: [go, '"+secretArgument+"']}}]\n")
	}
	for _, name := range []string{"exec-works", "task-works", "exec-fails", "task-fails"} {
		set := e.awaitEnd(name)
		if works := strings.HasSuffix(name, "works"); works != (set.Status.State == "complete") || !works && !strings.Contains(set.Status.Error.Message, secretOutput) {
			t.Errorf("ActionSet %s: got %s", name, summary(set))
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	wantNoSecrets(t, p.log.String(), "/exec")
}
