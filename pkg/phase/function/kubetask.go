// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/podrun"
)

// jobPrefix begins the names of the Pods of KubeTask and MultiContainerRun.
const jobPrefix = "kanister-job-"

// planKubeTask returns the plan of the Pod of KubeTask: one container that runs a command.
func planKubeTask(_ context.Context, call phase.Call) (podrun.Plan, error) {
	var args blueprint.KubeTaskArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return podrun.Plan{}, phase.Failf("%v", err)
	}
	return podrun.Plan{
		Prefix:    jobPrefix,
		Namespace: args.Namespace,
		Main:      podrun.MainContainer,
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{podrun.NewContainer(podrun.MainContainer, args.Image, args.Command)},
		},
		Args:     args.PodArgs,
		Override: call.Action.PodOverride,
	}, nil
}
