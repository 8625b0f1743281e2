// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"millwright.dev/pkg/blueprint"
)

// KubeExec runs a command in a container.
type KubeExec struct{ *commands }

var _ Function = KubeExec{}

// Validate implements Function.
func (k KubeExec) Validate(_ context.Context, call Call) (map[string]any, error) {
	in, command, err := kubeExecArgs(call)
	if err == nil {
		err = k.check(in, command)
	}
	if err != nil {
		return nil, err
	}
	return k.intent()
}

// Start implements Function.
func (k KubeExec) Start(_ context.Context, call Call) (Observation, error) {
	in, command, err := kubeExecArgs(call)
	if err == nil {
		err = k.check(in, command)
	}
	if err != nil {
		return failed(err)
	}
	return k.start(call, in, command)
}

func kubeExecArgs(call Call) ([]container, []string, error) {
	var args blueprint.KubeExecArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return nil, nil, Failf("%v", err)
	}
	in := []container{{args.Namespace, args.Pod, args.Container}}
	return in, args.Command, nil
}

// KubeExecAll runs a command in containers of several Pods at the same time: in each of the containers of each of the Pods. Where
// several of them print an output of the same key, that of the last Pod counts, and in a Pod that of the last container, in the order
// in which the arguments name them.
type KubeExecAll struct{ *commands }

var _ Function = KubeExecAll{}

// Validate implements Function.
func (k KubeExecAll) Validate(_ context.Context, call Call) (map[string]any, error) {
	in, command, err := kubeExecAllArgs(call)
	if err == nil {
		err = k.check(in, command)
	}
	if err != nil {
		return nil, err
	}
	return k.intent()
}

// Start implements Function.
func (k KubeExecAll) Start(_ context.Context, call Call) (Observation, error) {
	in, command, err := kubeExecAllArgs(call)
	if err == nil {
		err = k.check(in, command)
	}
	if err != nil {
		return failed(err)
	}
	return k.start(call, in, command)
}

func kubeExecAllArgs(call Call) (in []container, command []string, err error) {
	var args blueprint.KubeExecAllArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return nil, nil, Failf("%v", err)
	}
	for _, pod := range strings.Fields(args.Pods) {
		for _, name := range strings.Fields(args.Containers) {
			in = append(in, container{args.Namespace, pod, name})
		}
	}
	return in, args.Command, nil
}

// check refuses what would not be the path of a Pod, and Pods of the operator's own namespace.
func (c *commands) check(in []container, command []string) error {
	if len(command) == 0 {
		return Failf("the argument command is empty")
	}
	for _, each := range in {
		err := CheckNamespace("the argument namespace", each.namespace)
		if err == nil {
			err = CheckName("the argument pod", each.pod)
		}
		if err == nil && each.name != "" {
			err = checkPart("the argument container", each.name, validation.IsDNS1123Label)
		}
		if err == nil {
			err = c.operator.refuse(each.namespace, "runs a command")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
