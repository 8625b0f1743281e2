// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/exec"
)

// kubeExec is KubeExec and KubeExecAll, which differ in their arguments: it runs a command in containers.
type kubeExec struct {
	*exec.Commands
	reach phase.Reach
	// args returns the containers that the arguments of a call name, and the command.
	args func(call phase.Call) ([]exec.Container, []string, error)
}

var _ phase.Function = kubeExec{}

// Validate implements Function.
func (k kubeExec) Validate(_ context.Context, call phase.Call) (map[string]any, error) {
	if _, _, err := k.checkedArgs(call); err != nil {
		return nil, err
	}
	return k.Intent()
}

// Start implements Function.
func (k kubeExec) Start(_ context.Context, call phase.Call) (phase.Observation, error) {
	in, command, err := k.checkedArgs(call)
	if err != nil {
		return phase.Ended(err)
	}
	return k.Run(call, in, command)
}

// checkedArgs returns the checked arguments. It returns a *Failure for invalid names, and for Pods of the operator's own namespace.
func (k kubeExec) checkedArgs(call phase.Call) (in []exec.Container, command []string, _ error) {
	in, command, err := k.args(call)
	if err != nil {
		return nil, nil, err
	}
	if len(command) == 0 {
		return nil, nil, phase.Failf("the argument command is empty")
	}
	size := 0
	for _, word := range command {
		size += len(word) + sizeOfWord
	}
	if size > maxCommand {
		return nil, nil, phase.Failf("the argument command has %d bytes, %d for each word included, and may have %d: put its text into a file of the container, or into a volume",
			size, sizeOfWord, maxCommand)
	}
	for _, each := range in {
		err := phase.CheckNamespace("the argument namespace", each.Namespace)
		if err == nil {
			err = phase.CheckName("the argument pod", each.Pod)
		}
		if err == nil && each.Name != "" {
			err = phase.CheckContainer("the argument container", each.Name)
		}
		if err == nil {
			err = k.reach.Refuse(each.Namespace, "runs a command")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return in, command, nil
}

// maxCommand is the maximum size of a command, in bytes, with sizeOfWord for each of its words. It is in memory while it runs. Linux allows 128 KiB for one
// word where pages have 4 KiB (MAX_ARG_STRLEN), and the API server a URL of 1 MiB, in which a byte may take three and a word nine more.
const maxCommand, sizeOfWord = 256 << 10, 16

// kubeExecArgs returns the one container of a KubeExec.
func kubeExecArgs(call phase.Call) ([]exec.Container, []string, error) {
	var args blueprint.KubeExecArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return nil, nil, phase.Failf("%v", err)
	}
	in := []exec.Container{{Namespace: args.Namespace, Pod: args.Pod, Name: args.Container}}
	return in, args.Command, nil
}

// maxContainers is the maximum number of containers in which a KubeExecAll runs its command.
const maxContainers = 1000

// kubeExecAllArgs returns each container of each Pod of a KubeExecAll, once. If several of them print an output of the same key, that of the last Pod
// counts, and in a Pod that of the last container, in the order of the arguments.
func kubeExecAllArgs(call phase.Call) (in []exec.Container, command []string, err error) {
	var args blueprint.KubeExecAllArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return nil, nil, phase.Failf("%v", err)
	}
	pods, containers := namesIn(args.Pods), namesIn(args.Containers)
	if n := len(pods) * len(containers); n > maxContainers {
		return nil, nil, phase.Failf("the arguments pods and containers name %d containers together (%d Pods, %d containers in each), and may name %d: use several phases",
			n, len(pods), len(containers), maxContainers)
	}
	for _, pod := range pods {
		for _, name := range containers {
			in = append(in, exec.Container{Namespace: args.Namespace, Pod: pod, Name: name})
		}
	}
	return in, args.Command, nil
}

// namesIn returns the names in a list that is separated by blanks, each where it is named last.
func namesIn(list string) (names []string) {
	known := sets.New[string]()
	for _, name := range slices.Backward(strings.Fields(list)) {
		if !known.Has(name) {
			names = append(names, strings.Clone(name)) // without the rest of the list, which may be large
			known.Insert(name)
		}
	}
	slices.Reverse(names)
	return names
}
