// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAllFunctionsOfBlueprintsExist(t *testing.T) {
	if n := len(supported) + len(unsupported); n != 28 {
		t.Errorf("there are %d functions", n)
	}
	for _, name := range unsupported {
		_, err := Lookup(name)
		if err == nil {
			t.Fatalf("%s can be called", name)
		}
		wantContains(t, err.Error(), name, "not supported yet")
	}
	for _, name := range []string{"NoSuchFunc", "", "kubetask"} {
		_, err := Lookup(name)
		if want := "Requested function {" + name + "} has not been registered"; err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %v", err, want)
		}
	}
}

func TestArgumentsAreValidated(t *testing.T) {
	for of, test := range map[string]struct {
		function string
		args     map[string]any
		want     string
	}{
		"all required ones":       {"KubeOps", map[string]any{"operation": "create"}, ""},
		"all":                     {"KubeExec", map[string]any{"namespace": "n", "pod": "p", "command": []any{"c"}, "container": "c"}, ""},
		"a missing one":           {"KubeOps", nil, "Required args missing for function KubeOps: Required arg missing: operation"},
		"a null":                  {"KubeTask", map[string]any{"image": nil, "command": "c"}, "Required args missing for function KubeTask: Required arg missing: image"},
		"an optional null":        {"KubeTask", map[string]any{"image": "i", "command": "c", "namespace": nil}, ""},
		"an unknown one":          {"KubeOps", map[string]any{"operation": "create", "bogus": "x"}, "Checking supported args for function KubeOps.: argument bogus is not supported"},
		"one of another function": {"KubeExec", map[string]any{"namespace": "n", "pod": "p", "command": "c", "image": "i"}, "Checking supported args for function KubeExec.: argument image is not supported"},
	} {
		t.Run(of, func(t *testing.T) {
			function, err := Lookup(test.function)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := function.Validate(test.args); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("the error is %q, want %q", got, test.want)
			}
		})
	}
}

func TestAVersionThatIsNoneIsRefused(t *testing.T) {
	for _, version := range []string{"", "v0.0.0", "v1.2.3-alpha", "1.0.0"} {
		if err := CheckVersion(version); err != nil {
			t.Error(err)
		}
	}
	want := "Failed to get function version: Failed to parse function version {nonsense}: Invalid Semantic Version"
	if err := CheckVersion("nonsense"); err == nil || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
}

func TestArgumentsMatchFields(t *testing.T) {
	for name, into := range map[string]any{
		"KubeExec": KubeExecArgs{}, "KubeExecAll": KubeExecAllArgs{}, "KubeTask": KubeTaskArgs{}, "MultiContainerRun": MultiContainerRunArgs{},
		"PrepareData": PrepareDataArgs{}, "ScaleWorkload": ScaleWorkloadArgs{}, "KubeOps": KubeOpsArgs{}, "Wait": WaitArgs{}, "WaitV2": WaitArgs{},
	} {
		function := supported[name]
		names := slices.Sorted(slices.Values(slices.Concat(function.Required, function.Optional)))
		fields := []string{}
		for _, field := range reflect.VisibleFields(reflect.TypeOf(into)) {
			if tag := field.Tag.Get("arg"); !strings.HasPrefix(tag, ",") {
				fields = append(fields, tag)
			}
		}
		slices.Sort(fields)
		if diff := cmp.Diff(names, fields); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestArgumentsAreDecodedWeakly(t *testing.T) {
	yes := true
	for of, test := range map[string]struct {
		args       map[string]any
		into, want any
	}{
		"a text that is a number":  {map[string]any{"replicas": "3"}, &ScaleWorkloadArgs{}, &ScaleWorkloadArgs{Replicas: 3}},
		"a number":                 {map[string]any{"replicas": int64(3)}, &ScaleWorkloadArgs{}, &ScaleWorkloadArgs{Replicas: 3}},
		"a number from JSON":       {map[string]any{"replicas": 3.0}, &ScaleWorkloadArgs{}, &ScaleWorkloadArgs{Replicas: 3}},
		"a number for a text":      {map[string]any{"name": 7, "replicas": 1}, &ScaleWorkloadArgs{}, &ScaleWorkloadArgs{Name: "7", Replicas: 1}},
		"a text that is a boolean": {map[string]any{"waitForReady": "true"}, &ScaleWorkloadArgs{}, &ScaleWorkloadArgs{WaitForReady: &yes}},
		"a null":                   {map[string]any{"waitForReady": nil}, &ScaleWorkloadArgs{}, &ScaleWorkloadArgs{}},
		"a text for a list":        {map[string]any{"command": "true"}, &KubeExecArgs{}, &KubeExecArgs{Command: []string{"true"}}},
		"numbers in a list":        {map[string]any{"command": []any{"sleep", 5}}, &KubeExecArgs{}, &KubeExecArgs{Command: []string{"sleep", "5"}}},
		"an override": {
			map[string]any{"image": "i", "podOverride": map[string]any{"hostNetwork": true}, "podLabels": map[string]any{"n": 1}},
			&KubeTaskArgs{}, &KubeTaskArgs{Image: "i", PodArgs: PodArgs{PodOverride: map[string]any{"hostNetwork": true}, PodLabels: map[string]string{"n": "1"}}},
		},
		"conditions": {
			map[string]any{"timeout": "90s", "conditions": map[string]any{"allOf": []any{map[string]any{
				"condition": "c", "objectReference": map[string]any{"apiVersion": "v1", "resource": "pods", "name": "x"},
			}}}},
			&WaitArgs{}, &WaitArgs{Timeout: 90 * time.Second, Conditions: Conditions{AllOf: []Condition{{
				Condition: "c", ObjectReference: ObjectReference{APIVersion: "v1", Resource: "pods", Name: "x"},
			}}}},
		},
	} {
		t.Run(of, func(t *testing.T) {
			if err := Decode(test.args, test.into); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, test.into); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestErrorHidesArgumentValue(t *testing.T) {
	for argument, value := range map[string]any{"replicas": "hunter2", "waitForReady": map[string]any{"x": "hunter2"}, "name": []any{"hunter2", "x"}} {
		err := Decode(map[string]any{argument: value}, &ScaleWorkloadArgs{})
		if err == nil {
			t.Fatalf("%s is decoded", argument)
		}
		wantContains(t, err.Error(), argument)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v shows the value", err)
		}
	}
}
