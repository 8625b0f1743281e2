// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"fmt"
	"time"

	"github.com/go-viper/mapstructure/v2"
)

// PodArgs is what every function takes that makes a Pod.
type PodArgs struct {
	PodOverride    map[string]any    `arg:"podOverride"`
	PodAnnotations map[string]string `arg:"podAnnotations"`
	PodLabels      map[string]string `arg:"podLabels"`
}

// ObjectReference names an object of any kind. APIVersion is the version alone, such as v1.
type ObjectReference struct {
	APIVersion string `arg:"apiVersion"`
	Group      string `arg:"group"`
	Resource   string `arg:"resource"`
	Kind       string `arg:"kind"`
	Name       string `arg:"name"`
	Namespace  string `arg:"namespace"`
}

// KubeExecArgs are the arguments of KubeExec.
type KubeExecArgs struct {
	Namespace string   `arg:"namespace"`
	Pod       string   `arg:"pod"`
	Container string   `arg:"container"`
	Command   []string `arg:"command"`
}

// KubeExecAllArgs are the arguments of KubeExecAll. Pods and Containers are lists with blanks between.
type KubeExecAllArgs struct {
	Namespace  string   `arg:"namespace"`
	Pods       string   `arg:"pods"`
	Containers string   `arg:"containers"`
	Command    []string `arg:"command"`
}

// KubeTaskArgs are the arguments of KubeTask.
type KubeTaskArgs struct {
	Namespace string   `arg:"namespace"`
	Image     string   `arg:"image"`
	Command   []string `arg:"command"`
	PodArgs   `arg:",squash"`
}

// MultiContainerRunArgs are the arguments of MultiContainerRun.
type MultiContainerRunArgs struct {
	Namespace             string   `arg:"namespace"`
	InitImage             string   `arg:"initImage"`
	InitCommand           []string `arg:"initCommand"`
	BackgroundImage       string   `arg:"backgroundImage"`
	BackgroundCommand     []string `arg:"backgroundCommand"`
	OutputImage           string   `arg:"outputImage"`
	OutputCommand         []string `arg:"outputCommand"`
	SharedVolumeMedium    string   `arg:"sharedVolumeMedium"`
	SharedVolumeSizeLimit string   `arg:"sharedVolumeSizeLimit"`
	SharedVolumeDir       string   `arg:"sharedVolumeDir"`
	PodArgs               `arg:",squash"`
}

// PrepareDataArgs are the arguments of PrepareData. Volumes is the mount path by claim.
type PrepareDataArgs struct {
	Namespace      string            `arg:"namespace"`
	Image          string            `arg:"image"`
	Command        []string          `arg:"command"`
	Volumes        map[string]string `arg:"volumes"`
	ServiceAccount string            `arg:"serviceaccount"`
	FailOnError    bool              `arg:"failOnError"`
	PodArgs        `arg:",squash"`
}

// ScaleWorkloadArgs are the arguments of ScaleWorkload. WaitForReady is nil where it is not given, which means true.
type ScaleWorkloadArgs struct {
	Namespace    string `arg:"namespace"`
	Name         string `arg:"name"`
	Kind         string `arg:"kind"`
	Replicas     int32  `arg:"replicas"`
	WaitForReady *bool  `arg:"waitForReady"`
}

// KubeOpsArgs are the arguments of KubeOps. Spec is YAML.
type KubeOpsArgs struct {
	Operation       string          `arg:"operation"`
	Spec            string          `arg:"spec"`
	Namespace       string          `arg:"namespace"`
	ObjectReference ObjectReference `arg:"objectReference"`
}

// WaitArgs are the arguments of Wait and WaitV2.
type WaitArgs struct {
	Timeout    time.Duration `arg:"timeout"`
	Conditions Conditions    `arg:"conditions"`
}

// Conditions hold when one of AnyOf does, or all of AllOf.
type Conditions struct {
	AnyOf []Condition `arg:"anyOf"`
	AllOf []Condition `arg:"allOf"`
}

// Condition is a template about an object.
type Condition struct {
	Condition       string          `arg:"condition"`
	ObjectReference ObjectReference `arg:"objectReference"`
}

// Decode sets the fields of into, a pointer to one of the structs above, from rendered arguments. It is weak, because templates
// give texts only: "3" is a number and 3 a text, "true" is a boolean, and a single value a list of one. Nulls set nothing.
func Decode(args map[string]any, into any) error {
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		TagName: "arg", WeaklyTypedInput: true, Result: into, DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
	})
	if err != nil {
		return fmt.Errorf("decoding arguments into %T: %w", into, err)
	}
	if err := decoder.Decode(args); err != nil {
		return fmt.Errorf("decoding arguments: %w", err)
	}
	return nil
}
