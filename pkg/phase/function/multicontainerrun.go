// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/podrun"
)

const (
	initContainer       = "init"
	backgroundContainer = "background"
	outputContainer     = "output"

	sharedVolume           = "shared"
	defaultSharedVolumeDir = "/tmp/"
	// annotationDefaultContainer names the container whose log kubectl shows.
	annotationDefaultContainer = "kubectl.kubernetes.io/default-container"
)

// planMultiContainerRun returns the plan of the Pod of MultiContainerRun: two containers that share a volume, and an optional init container.
// Both containers have to succeed; only the log of the container output is read.
func planMultiContainerRun(_ context.Context, call phase.Call) (podrun.Plan, error) {
	var args blueprint.MultiContainerRunArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return podrun.Plan{}, phase.Failf("%v", err)
	}
	shared := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMedium(args.SharedVolumeMedium)}
	if args.SharedVolumeSizeLimit != "" {
		limit, err := podrun.ParseQuantity(args.SharedVolumeSizeLimit)
		if err != nil {
			return podrun.Plan{}, phase.Failf("reading sharedVolumeSizeLimit %.70q: %v", args.SharedVolumeSizeLimit, err)
		}
		shared.SizeLimit = &limit
	}
	mounted := func(name, image string, command []string) corev1.Container {
		container := podrun.NewContainer(name, image, command)
		container.VolumeMounts = []corev1.VolumeMount{{
			Name: sharedVolume, MountPath: cmp.Or(args.SharedVolumeDir, defaultSharedVolumeDir),
		}}
		return container
	}
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Volumes:       []corev1.Volume{{Name: sharedVolume, VolumeSource: corev1.VolumeSource{EmptyDir: shared}}},
		Containers: []corev1.Container{
			mounted(outputContainer, args.OutputImage, args.OutputCommand),
			mounted(backgroundContainer, args.BackgroundImage, args.BackgroundCommand),
		},
	}
	if args.InitImage != "" {
		spec.InitContainers = []corev1.Container{mounted(initContainer, args.InitImage, args.InitCommand)}
	}
	return podrun.Plan{
		Prefix:      jobPrefix,
		Namespace:   args.Namespace,
		Main:        outputContainer,
		Spec:        spec,
		Annotations: map[string]string{annotationDefaultContainer: outputContainer},
		Args:        args.PodArgs,
		Override:    forEachContainer(call.Action.PodOverride, args.InitImage != ""),
	}, nil
}

// forEachContainer applies an override of the container named container, which other functions have, to each container that the override
// does not name.
func forEachContainer(override map[string]any, hasInit bool) map[string]any {
	containers, _ := override["containers"].([]any)
	at := slices.IndexFunc(containers, isNamed(podrun.MainContainer))
	if at < 0 {
		return override
	}
	general := containers[at].(map[string]any)
	expanded := maps.Clone(override)
	expand := func(field string, list []any, names ...string) {
		for _, name := range names {
			if !slices.ContainsFunc(list, isNamed(name)) {
				one := maps.Clone(general)
				one["name"] = name
				list = append(list, one)
			}
		}
		expanded[field] = list
	}
	expand("containers", slices.Delete(slices.Clone(containers), at, at+1), backgroundContainer, outputContainer)
	if hasInit {
		initContainers, _ := override["initContainers"].([]any)
		expand("initContainers", slices.Clone(initContainers), initContainer)
	}
	return expanded
}

func isNamed(name string) func(any) bool {
	return func(item any) bool {
		container, _ := item.(map[string]any)
		return container["name"] == name
	}
}
