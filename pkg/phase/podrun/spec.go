// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

const (
	// gateRecorded holds a Pod back until its UID is recorded.
	gateRecorded = "millwright.dev/recorded"

	// labelCreatedBy is what users of Kanister find Pods of phases by.
	labelCreatedBy = "createdBy"
	createdBy      = "kanister"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "millwright"

	// MainContainer is the name of the only container of KubeTask and PrepareData. Overrides of users name it.
	MainContainer = "container"
)

// Plan is the Pod of one call, before what all Pods of phases have in common is put on it.
type Plan struct {
	// prefix of its name.
	Prefix string
	// namespace, or "" for that of the subject.
	Namespace string
	// main is the container that prints the outputs. It is the first one.
	Main        string
	Spec        corev1.PodSpec
	Annotations map[string]string
	// args of the Blueprint, and override of the ActionSet, which wins.
	Args     blueprint.PodArgs
	Override map[string]any
	// readOnly are the claims that are mounted so.
	ReadOnly []string
	// ignoreFailure: the phase succeeds although the Pod fails.
	IgnoreFailure bool
}

// build the Pod, gated. Another process builds the same one, with the same name.
func (p Plan) build(call phase.Call, serviceAccount string) (*corev1.Pod, error) {
	namespace := cmp.Or(p.Namespace, call.Action.Namespace)
	if namespace == "" {
		return nil, phase.Failf(phase.NoNamespace)
	}
	if err := phase.CheckNamespace("the argument namespace", namespace); err != nil {
		return nil, err
	}
	spec, err := overridden(p.Spec, p.Main, p.Args.PodOverride, p.Override)
	if err != nil {
		return nil, err
	}
	if spec.ServiceAccountName == "" && spec.DeprecatedServiceAccount == "" {
		spec.ServiceAccountName = serviceAccount
	}
	if err := phase.RefuseAccount(spec); err != nil {
		return nil, err
	}
	spec.SchedulingGates = append(spec.SchedulingGates, corev1.PodSchedulingGate{Name: gateRecorded})
	id := call.ID
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      podName(p.Prefix, id),
			Namespace: namespace,
			Labels: union(call.Action.PodLabels, p.Args.PodLabels, map[string]string{
				labelCreatedBy: createdBy, labelManagedBy: managedBy, phase.LabelActionSet: string(id.UID), phase.LabelPhase: id.String(),
			}),
			Annotations: union(p.Annotations, call.Action.PodAnnotations, p.Args.PodAnnotations, map[string]string{
				phase.AnnotationActionSet: id.Namespace + "/" + id.Name,
			}),
		},
		Spec: *spec,
	}
	if pod.Namespace == id.Namespace {
		// Not the controller of it: such a Pod is not created again when a node is drained, and it must not look so.
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ActionSet", Name: id.Name, UID: id.UID,
		}}
	}
	return pod, nil
}

// union of maps; a later one wins.
func union(all ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, m := range all {
		maps.Copy(merged, m)
	}
	return merged
}

// podName is the same in every process, so that the Pod is found again, and of two that are made at a time one is refused.
func podName(prefix string, id phase.ID) string {
	sum := sha256.Sum256([]byte(string(id.UID) + "/" + id.String()))
	letters := sum[:10]
	for i := range letters {
		letters[i] %= 4 * 27 // the encoding has 27 letters, and takes ASCII
	}
	return prefix + rand.SafeEncodeString(string(letters))
}

// isOf reports whether a Pod was made for that phase.
func isOf(pod *corev1.Pod, id phase.ID) bool {
	return pod.Labels[phase.LabelActionSet] == string(id.UID) && pod.Labels[phase.LabelPhase] == id.String()
}

// idOf is the phase that a Pod was made for; ok is false if it is not marked.
func idOf(pod *corev1.Pod) (id phase.ID, ok bool) {
	namespace, name, named := strings.Cut(pod.Annotations[phase.AnnotationActionSet], "/")
	action, index, cut := strings.Cut(pod.Labels[phase.LabelPhase], ".")
	id = phase.ID{Namespace: namespace, Name: name, UID: types.UID(pod.Labels[phase.LabelActionSet]), Phase: phase.Deferred}
	var err error
	if id.Action, err = strconv.Atoi(action); err == nil && index != "defer" {
		id.Phase, err = strconv.Atoi(index)
	}
	return id, named && cut && err == nil && id.UID != "" && id.String() == pod.Labels[phase.LabelPhase]
}

// gated reports whether a Pod is held back because its UID may not be recorded.
func gated(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gateRecorded})
}

// ungate is the patch by which the Pod of that UID goes. Of any other it is refused.
func ungate(uid types.UID) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"schedulingGates":[{"$patch":"delete","name":%q}]}}`, uid, gateRecorded)
}

// NewContainer is one container as all Pods of phases have them.
func NewContainer(name, image string, command []string) corev1.Container {
	return corev1.Container{Name: name, Image: image, Command: command, ImagePullPolicy: corev1.PullIfNotPresent}
}
