// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"
)

// Function is what is known about a function before a phase calls it.
type Function struct {
	Name string
	// Required and Optional are the names of all its arguments.
	Required, Optional []string
	// Raw are the members of its arguments, at any depth, that are not rendered: the function evaluates them itself.
	Raw []string
}

// podArgs are the arguments of every function that makes a Pod.
var podArgs = []string{"podOverride", "podAnnotations", "podLabels"}

// supported are the functions that phases can call.
var supported = byName([]Function{
	{Name: "KubeExec", Required: []string{"namespace", "pod", "command"}, Optional: []string{"container"}},
	{Name: "KubeExecAll", Required: []string{"namespace", "pods", "containers", "command"}},
	{Name: "KubeTask", Required: []string{"image", "command"}, Optional: append([]string{"namespace"}, podArgs...)},
	{
		Name:     "MultiContainerRun",
		Required: []string{"backgroundImage", "backgroundCommand", "outputImage", "outputCommand"},
		Optional: append([]string{
			"namespace", "initImage", "initCommand", "sharedVolumeMedium", "sharedVolumeSizeLimit", "sharedVolumeDir",
		}, podArgs...),
	},
	{
		Name:     "PrepareData",
		Required: []string{"namespace", "image", "command"},
		Optional: append([]string{"volumes", "serviceaccount", "failOnError"}, podArgs...),
	},
	{Name: "ScaleWorkload", Required: []string{"replicas"}, Optional: []string{"namespace", "name", "kind", "waitForReady"}},
	{Name: "KubeOps", Required: []string{"operation"}, Optional: []string{"spec", "namespace", "objectReference"}},
	{Name: "Wait", Required: []string{"timeout", "conditions"}, Raw: []string{"condition"}},
	{Name: "WaitV2", Required: []string{"timeout", "conditions"}, Raw: []string{"condition", "timeout"}},
})

// unsupported are the other functions that Blueprints know.
var unsupported = []string{
	"CreateCSISnapshot", "CreateCSISnapshotStatic", "RestoreCSISnapshot", "DeleteCSISnapshot", "DeleteCSISnapshotContent",
	"LocationDelete",
	"BackupData", "BackupDataAll", "BackupDataStats", "CheckRepository", "CopyVolumeData", "DeleteData", "DeleteDataAll",
	"RestoreData", "RestoreDataAll",
	"CreateRDSSnapshot", "DeleteRDSSnapshot", "ExportRDSSnapshotToLocation", "RestoreRDSSnapshot",
}

func byName(functions []Function) map[string]Function {
	named := make(map[string]Function, len(functions))
	for _, function := range functions {
		named[function.Name] = function
	}
	return named
}

// Names of the functions that phases can call, in order.
func Names() []string { return slices.Sorted(maps.Keys(supported)) }

// Lookup returns the function of that name; an error if there is none, or if it cannot be called here.
func Lookup(name string) (Function, error) {
	if function, found := supported[name]; found {
		return function, nil
	}
	if slices.Contains(unsupported, name) {
		return Function{}, knownf("Requested function {%s} is known, but not supported yet", name)
	}
	return Function{}, knownf("Requested function {%s} has not been registered", name)
}

// Validate returns an error if a required argument is missing or null, or if one is given that the function does not have. It
// needs no rendered arguments: their names are what they are.
func (f Function) Validate(args map[string]any) error {
	for _, name := range f.Required {
		if args[name] == nil {
			return knownf("Required args missing for function %s: Required arg missing: %s", f.Name, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !slices.Contains(f.Required, name) && !slices.Contains(f.Optional, name) {
			return knownf("Checking supported args for function %s.: argument %s is not supported", f.Name, name)
		}
	}
	return nil
}

// CheckVersion returns an error if the preferred version of functions is none. There is one version of each function, which is
// taken whatever version is preferred.
func CheckVersion(preferred string) error {
	if preferred == "" {
		return nil
	}
	if _, err := semver.NewVersion(preferred); err != nil {
		return knownf("Failed to get function version: Failed to parse function version {%s}: Invalid Semantic Version", preferred)
	}
	return nil
}
