// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/testing/patience"
)

func TestMachine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*env){
		"lever":                 leverComesDown,
		"switches":              switchesComeDown,
		"scale":                 machineIsScaled,
		"switch deleted":        switchDeleted,
		"switch relabelled":     switchRelabelled,
		"switch unlabelled":     switchUnlabelled,
		"switch before Machine": switchBeforeMachine,
		"surplus switch":        switchByHand,
		"foreign switch":        switchOfStranger,
		"selectors overlap":     selectorsOverlap,
		"background deletion":   machineDeletedInBackground,
		"foreground deletion":   machineDeletedInForeground,
		"orphans adopted":       machineOrphans,
		"recreated":             machineRecreated,
		"quota exceeded":        machineQuota,
		"namespace deletion":    machineNamespaceDeletion,
	} {
		t.Run(name, func(t *testing.T) {
			test(inCore(t))
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
	wide := e.watchRows("mach", "machine-1", "-o", "wide") // the lever stays up for five seconds only
	begin := time.Now()
	e.kubectl("patch", "machine", "machine-1", "--type=merge", `--patch={"spec":{"switchPosition":"up"}}`)
	e.kubectl("wait", "machine/machine-1", "--for=jsonpath={.spec.switchPosition}=down", patience.Timeout)
	if took := time.Since(begin); took < 5*time.Second {
		e.Errorf("the lever came down after %s, want 5 s at least", took)
	}
	e.awaitMachine("machine-1", 1)
	e.eventually(func() string {
		for _, row := range wide() {
			if len(row) == 8 && row[4] == "up" && strings.HasSuffix(row[5], "s") && row[7] == "Complete" {
				return ""
			}
		}
		return fmt.Sprintf("kubectl get -o wide --watch has no row of a lever that was seen up: %q", wide())
	})
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
	e.kubectl("wait", "machine/"+name, "--for=condition=Ready", patience.Timeout)
	_, switches := e.awaitMachine(name, 3)
	if got, want := e.columns("machines"), "NAME SWITCHES POSITIONS AGE"; got != want {
		e.Errorf("kubectl get machines: got columns %q, want %q", got, want)
	}
	if got, want := e.columns("mach", "-o", "wide"), "NAME SWITCHES POSITIONS AGE POSITION SEEN READY REASON"; got != want {
		e.Errorf("kubectl get machines -o wide: got columns %q, want %q", got, want)
	}
	if got, want := e.columns("switches", "-o", "wide", "--show-labels"), "NAME POSITION SEEN MACHINE AGE LABELS"; got != want {
		e.Errorf("kubectl get switches -o wide --show-labels: got columns %q, want %q", got, want)
	}
	if got := strings.Fields(e.kubectl("get", "machines", "--no-headers")); strings.Join(got[:3], " ") != name+" 3 ddd" {
		e.Errorf("kubectl get machines: got %q", got)
	}
	if all := e.kubectl("get", "useless"); strings.Count(all, "switch.useless.container.training/switch-") != 3 || !strings.Contains(all, "machine.useless.container.training/"+name) {
		e.Errorf("kubectl get useless: got\n%s", all)
	}

	rows := e.watchRows("machine", name)
	e.kubectl("patch", "switch", switches[0].Name, switches[1].Name, switches[2].Name, "--type=merge", `--patch={"spec":{"position":"up"}}`)
	if up := e.kubectl("get", "sw", "--field-selector=spec.position=up", "-o", "name"); strings.Count(up, "\n") != 3 {
		e.Errorf("switches selected by position: got\n%s, want 3", up)
	}
	e.eventually(func() string {
		var seen []string
		for _, row := range rows() {
			if positions := row[2]; len(seen) == 0 || seen[len(seen)-1] != positions {
				seen = append(seen, positions)
			}
		}
		if n := len(seen); n < 4 || seen[n-1] != "ddd" || strings.Count(seen[n-2], "u") != 1 || strings.Count(seen[n-3], "u") != 2 {
			return fmt.Sprintf("positions in kubectl get --watch: got %q, want one switch after the other to come down", seen)
		}
		return ""
	})
	e.awaitMachine(name, 3)
	if flips.flips() != 3 {
		e.Errorf("got %d flips, want 3", flips.flips())
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
		e.Errorf("kubectl scale to 0: got %s, want it refused", refusal)
	}
	if scale := e.kubectl("get", "machine", "m", "--subresource=scale", "-o", "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}"); scale != "5 5 machine=m" {
		e.Errorf("scale: got %s, want 5 5 machine=m", scale)
	}
	e.kubectl("scale", "machine", "m", "--replicas=1")
	if _, last := e.awaitMachine("m", 1); last[0].CreationTimestamp.After(first[0].CreationTimestamp.Time) {
		e.Errorf("switch that was kept: got %+v, want the oldest", last)
	}
	e.awaitMachineEvent("m", "SwitchDeleted", "Deleted: ")
}
