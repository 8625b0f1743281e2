// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/blueprint"
)

// jobPrefix begins the names of the Pods of KubeTask and MultiContainerRun.
const jobPrefix = "kanister-job-"

// planKubeTask is the Pod of KubeTask: one container that runs a command.
func planKubeTask(_ context.Context, call Call) (podPlan, error) {
	var args blueprint.KubeTaskArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return podPlan{}, Failf("%v", err)
	}
	return podPlan{
		prefix:    jobPrefix,
		namespace: args.Namespace,
		main:      mainContainer,
		spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{newContainer(mainContainer, args.Image, args.Command)},
		},
		args:     args.PodArgs,
		override: call.Action.PodOverride,
	}, nil
}
