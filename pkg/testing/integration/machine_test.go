// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/testing/testcluster"
)

func TestMachine(t *testing.T) {
	cluster := testcluster.Shared(t)
	runManager(t, cluster)
	for name, test := range map[string]func(*env){
		"a lever that is up comes down after five seconds":          leverComesDown,
		"switches that are moved up come down one by one":           switchesComeDown,
		"kubectl scale scales it, and refuses what cannot be":       machineIsScaled,
		"a deleted switch is made again":                            switchDeleted,
		"a switch of another label goes from one to another":        switchRelabelled,
		"a switch without the label stays and is replaced":          switchUnlabelled,
		"a switch is adopted when its Machine appears":              switchBeforeMachine,
		"a switch made by hand is adopted and trimmed as too many":  switchByHand,
		"a switch of something else is not counted":                 switchOfStranger,
		"of two that want the same the younger says so":             selectorsOverlap,
		"deleted in the background, its switches go too":            machineDeletedInBackground,
		"deleted in the foreground, its switches go first":          machineDeletedInForeground,
		"deleted as it is, its switches are adopted by the next":    machineOrphans,
		"made anew while its old switches terminate":                machineRecreated,
		"a quota that refuses is told once, and not tried in haste": machineQuota,
		"a deleted namespace goes without a complaint":              machineNamespaceDeletion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newEnv(t, cluster))
		})
	}
}

// The first part of the tutorial.
func leverComesDown(e *env) {
	e.kubectl("apply", "-f", e.file(`
apiVersion: useless.container.training/v1alpha1
kind: Machine
metadata:
  name: machine-1
spec:
  switchPosition: down
`))
	e.awaitMachine("machine-1", 1)
	begin := time.Now()
	e.kubectl("patch", "machine", "machine-1", "--type=merge", `--patch={"spec":{"switchPosition":"up"}}`)
	e.kubectl("wait", "machine/machine-1", "--for=jsonpath={.status.seenAt}", "--timeout=10s")
	if wide := strings.Fields(e.kubectl("get", "mach", "machine-1", "-o", "wide", "--no-headers")); len(wide) != 7 || wide[4] != "up" || !strings.HasSuffix(wide[5], "s") {
		e.Errorf("kubectl get -o wide shows %q", wide)
	}
	e.kubectl("wait", "machine/machine-1", "--for=jsonpath={.spec.switchPosition}=down", "--timeout=30s")
	if took := time.Since(begin); took < 5*time.Second {
		e.Errorf("the lever came down after %s", took)
	}
	e.awaitMachine("machine-1", 1)
	e.awaitMachineEvent("machine-1", "SeenUp", "the lever is up")
	e.awaitMachineEvent("machine-1", "Flipped", "Moved the lever down")
}

// The second part of the tutorial.
func switchesComeDown(e *env) {
	flips := recordFlips(e, 5*time.Second, 5*time.Second)
	created := e.kubectl("create", "-f", e.file(`
apiVersion: useless.container.training/v1alpha1
kind: Machine
metadata:
  generateName: machine-
spec:
  switches: 3
`), "-o", "name")
	_, name, _ := strings.Cut(strings.TrimSpace(created), "/")
	e.kubectl("wait", "machine/"+name, "--for=condition=Ready", "--timeout=30s")
	_, switches := e.awaitMachine(name, 3)
	if got, want := e.columns("machines"), "NAME SWITCHES POSITIONS AGE"; got != want {
		e.Errorf("kubectl get machines has the columns %q, not %q", got, want)
	}
	if got, want := e.columns("mach", "-o", "wide"), "NAME SWITCHES POSITIONS AGE POSITION SEEN READY"; got != want {
		e.Errorf("kubectl get machines -o wide has the columns %q, not %q", got, want)
	}
	if got, want := e.columns("switches", "-o", "wide", "--show-labels"), "NAME POSITION SEEN MACHINE AGE LABELS"; got != want {
		e.Errorf("kubectl get switches -o wide --show-labels has the columns %q, not %q", got, want)
	}
	if got := strings.Fields(e.kubectl("get", "machines", "--no-headers")); strings.Join(got[:3], " ") != name+" 3 ddd" {
		e.Errorf("kubectl get machines shows %q", got)
	}
	if all := e.kubectl("get", "useless"); strings.Count(all, "switch.useless.container.training/switch-") != 3 || !strings.Contains(all, "machine.useless.container.training/"+name) {
		e.Errorf("kubectl get useless shows\n%s", all)
	}

	for _, sw := range switches {
		e.kubectl("patch", "switch", sw.Name, "--type=merge", `--patch={"spec":{"position":"up"}}`)
	}
	if up := e.kubectl("get", "sw", "--field-selector=spec.position=up", "-o", "name"); strings.Count(up, "\n") != 3 {
		e.Errorf("by the field selector these are up:\n%s", up)
	}
	watched := e.kubectl("get", "machine", name, "-w", "--no-headers", "--request-timeout=20s")
	var seen []string
	for line := range strings.Lines(watched) {
		if positions := strings.Fields(line)[2]; len(seen) == 0 || seen[len(seen)-1] != positions {
			seen = append(seen, positions)
		}
	}
	if len(seen) > 4 || len(seen) < 3 || seen[len(seen)-1] != "ddd" || strings.Count(seen[len(seen)-2], "u") != 1 || strings.Count(seen[len(seen)-3], "u") != 2 {
		e.Errorf("kubectl get -w shows the positions %q, want one after the other to come down:\n%s", seen, watched)
	}
	e.awaitMachine(name, 3)
	if flips.flips() != 3 {
		e.Errorf("there were %d flips", flips.flips())
	}
	e.awaitMachineEvent(name, "Flipped", "Moved switch")
	described := e.kubectl("describe", "machine", name)
	for _, part := range []string{"SwitchCreated", "Created: switch-", "SeenUp", " is up", "Flipped", "Moved switch " + switches[0].Name + " down", "Positions:", "ddd"} {
		if !strings.Contains(described, part) {
			e.Errorf("kubectl describe does not show %q:\n%s", part, described)
		}
	}
}

func machineIsScaled(e *env) {
	e.createMachine(newMachine("m", 1))
	_, first := e.awaitMachine("m", 1)
	e.kubectl("scale", "machine", "m", "--replicas=5")
	e.awaitMachine("m", 5)
	if refusal := e.kubectlFails("scale", "machine", "m", "--replicas=0"); !strings.Contains(refusal, "spec.switches in body should be greater than or equal to 1") {
		e.Errorf("scaling to 0 is refused with %s", refusal)
	}
	if scale := e.kubectl("get", "machine", "m", "--subresource=scale", "-o", "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}"); scale != "5 5 machine=m" {
		e.Errorf("the scale is %s", scale)
	}
	e.kubectl("scale", "machine", "m", "--replicas=1")
	if _, last := e.awaitMachine("m", 1); last[0].CreationTimestamp.After(first[0].CreationTimestamp.Time) {
		e.Errorf("of five it kept %+v, which is not the oldest", last)
	}
	e.awaitMachineEvent("m", "SwitchDeleted", "Deleted: ")
}
