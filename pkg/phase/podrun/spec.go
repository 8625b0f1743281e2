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
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

const (
	// gateRecorded is the scheduling gate of a Pod until its UID is recorded.
	gateRecorded = "millwright.dev/recorded"

	// labelCreatedBy is the label by which users of Kanister find the Pods of phases.
	labelCreatedBy = "createdBy"
	createdBy      = "kanister"

	// MainContainer is the name of the only container of KubeTask and PrepareData. Overrides of users name it.
	MainContainer = "container"
)

// Plan describes the Pod of one call, without what all Pods of phases have in common.
type Plan struct {
	// Prefix of its name.
	Prefix string
	// Namespace, or "" for that of the subject.
	Namespace string
	// Main is the container that prints the outputs. It is the first one.
	Main        string
	Spec        corev1.PodSpec
	Annotations map[string]string
	// Args of the Blueprint, and Override of the ActionSet, which wins.
	Args     blueprint.PodArgs
	Override map[string]any
	// ReadOnly are the claims that are mounted read-only.
	ReadOnly []string
	// IgnoreFailure: the phase succeeds although the Pod fails.
	IgnoreFailure bool
}

// build returns the Pod, with its scheduling gate. Every process builds the same Pod, with the same name.
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
				labelCreatedBy: createdBy, phase.LabelManagedBy: phase.ManagedBy, phase.LabelActionSet: string(id.UID), phase.LabelPhase: id.String(),
			}),
			Annotations: union(p.Annotations, call.Action.PodAnnotations, p.Args.PodAnnotations, map[string]string{
				phase.AnnotationActionSet: id.Namespace + "/" + id.Name,
			}),
		},
		Spec: *spec,
	}
	if pod.Namespace == id.Namespace {
		// The owner is not its controller: drain tools assume that a controller creates a deleted Pod again, and the ActionSet does not.
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ActionSet", Name: id.Name, UID: id.UID,
		}}
	}
	return pod, nil
}

// union merges maps; a later one wins.
func union(all ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, m := range all {
		maps.Copy(merged, m)
	}
	return merged
}

// podName returns the name of the Pod of a phase. It is the same in every process, so that the Pod is found again, and only one can be created.
func podName(prefix string, id phase.ID) string {
	sum := sha256.Sum256([]byte(string(id.UID) + "/" + id.String()))
	letters := sum[:10]
	for i := range letters {
		letters[i] %= 4 * 27 // the encoding has 27 letters, and takes ASCII
	}
	return prefix + rand.SafeEncodeString(string(letters))
}

// hasLabelsOf reports whether a Pod has the labels of one that was made for a phase. Another client may have given them to it.
func hasLabelsOf(pod *corev1.Pod, id phase.ID) bool {
	return pod.Labels[phase.LabelActionSet] == string(id.UID) && pod.Labels[phase.LabelPhase] == id.String()
}

// idOf returns the phase that a Pod was made for; ok is false if the Pod is not marked.
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

// gated reports whether a Pod has the scheduling gate.
func gated(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gateRecorded})
}

// ungate returns the patch that removes the scheduling gate, and records when. The API server refuses it for a Pod with another UID.
func ungate(uid types.UID, now time.Time) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}},"spec":{"schedulingGates":[{"$patch":"delete","name":%q}]}}`,
		uid, phase.AnnotationReleased, now.UTC().Format(time.RFC3339), gateRecorded)
}

// releasedAt returns when a Pod was released. An earlier release of the operator has not recorded that: then it is the creation of the Pod, or when the phase
// began if that was later.
func releasedAt(pod *corev1.Pod, began time.Time) time.Time {
	if at, err := time.Parse(time.RFC3339, pod.Annotations[phase.AnnotationReleased]); err == nil {
		return at
	}
	if pod.CreationTimestamp.After(began) {
		return pod.CreationTimestamp.Time
	}
	return began
}

// NewContainer returns a container with the defaults of all Pods of phases.
func NewContainer(name, image string, command []string) corev1.Container {
	return corev1.Container{Name: name, Image: image, Command: command, ImagePullPolicy: corev1.PullIfNotPresent}
}
