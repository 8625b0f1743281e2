// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/podrun"
)

const (
	prepareDataPrefix = "prepare-data-job-"
	// prepareDataDir is where the volumes of the subject are mounted by default.
	prepareDataDir = "/mnt/prepare_data/"
)

// planPrepareData returns the plan of the Pod of PrepareData: one container that runs a command on existing volumes.
func planPrepareData(client kubernetes.Interface) func(context.Context, phase.Call) (podrun.Plan, error) {
	return func(ctx context.Context, call phase.Call) (podrun.Plan, error) {
		var args blueprint.PrepareDataArgs
		if err := blueprint.Decode(call.Args, &args); err != nil {
			return podrun.Plan{}, phase.Failf("%v", err)
		}
		volumes, err := volumesOf(args, call.Action)
		if err != nil {
			return podrun.Plan{}, err
		}
		readOnly, err := readOnlyClaims(ctx, client, call, args.Namespace, volumes)
		if err != nil {
			return podrun.Plan{}, err
		}
		container := podrun.NewContainer(podrun.MainContainer, args.Image, args.Command)
		spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: args.ServiceAccount}
		for _, claim := range slices.Sorted(maps.Keys(volumes)) {
			name, only := volumeName(claim), slices.Contains(readOnly, claim)
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: only},
			}})
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: volumes[claim], ReadOnly: only})
		}
		spec.Containers = []corev1.Container{container}
		return podrun.Plan{
			Prefix:        prepareDataPrefix,
			Namespace:     args.Namespace,
			Main:          podrun.MainContainer,
			Spec:          spec,
			Args:          args.PodArgs,
			Override:      call.Action.PodOverride,
			ReadOnly:      readOnly,
			IgnoreFailure: !args.FailOnError,
		}, nil
	}
}

// volumesOf returns the mount paths of the volumes, by claim.
func volumesOf(args blueprint.PrepareDataArgs, action phase.Action) (map[string]string, error) {
	if len(args.Volumes) > 0 {
		return args.Volumes, nil
	}
	workload := action.Deployment
	if workload == nil {
		workload = action.StatefulSet
	}
	if workload == nil {
		return nil, phase.Failf("Failed to get volumes")
	}
	volumes := map[string]string{}
	for _, claims := range workload.PersistentVolumeClaims {
		for claim := range claims {
			volumes[claim] = prepareDataDir + claim
		}
	}
	if len(volumes) == 0 {
		return nil, phase.Failf("No volumes found")
	}
	return volumes, nil
}

// readOnlyClaims returns the claims that are read-only. All claims have to exist. They are read before the intent is recorded, and the intent
// contains the result.
func readOnlyClaims(
	ctx context.Context, client kubernetes.Interface, call phase.Call, namespace string, volumes map[string]string,
) (readOnly []string, _ error) {
	if call.Intent != nil {
		intent, err := podrun.ReadIntent(call)
		return intent.ReadOnly, err
	}
	if err := phase.CheckNamespace("the argument namespace", namespace); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		if err := phase.CheckName("a claim of the argument volumes", name); err != nil {
			return nil, err
		}
		claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading PersistentVolumeClaim %s/%s: %w", namespace, name, phase.Definitive(err))
		}
		if !slices.ContainsFunc(claim.Spec.AccessModes, canWrite) {
			readOnly = append(readOnly, name)
		}
	}
	return readOnly, nil
}

func canWrite(mode corev1.PersistentVolumeAccessMode) bool { return mode != corev1.ReadOnlyMany }

// volumeName returns vol- and the name of the claim, or a hash if that is not a valid name of a volume.
func volumeName(claim string) string {
	name := "vol-" + claim
	if len(validation.IsDNS1123Label(name)) == 0 {
		return name
	}
	return fmt.Sprintf("vol-%x", sha256.Sum256([]byte(claim)))[:20]
}
