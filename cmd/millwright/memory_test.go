// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/yaml"

	"millwright.dev/pkg/inflight"
)

func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, test := range []struct {
		limit, byHand string
		want          int64
		fails         bool
	}{
		{limit: "1000000000", want: 800_000_000},
		{limit: "1000000000", byHand: "500MiB"},
		{},
		{limit: "1Gi", fails: true},
		{limit: "0", fails: true},
	} {
		debug.SetMemoryLimit(before)
		variables := map[string]string{memoryLimitVariable: test.limit, "GOMEMLIMIT": test.byHand}
		got, err := limitMemory(func(name string) string { return variables[name] })
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%+v: the limit is %d, and the error %v", test, got, err)
		}
		if now := debug.SetMemoryLimit(-1); got == 0 && now != before || got > 0 && now != got {
			t.Errorf("%+v: the runtime has the limit %d", test, now)
		}
	}
}

func TestEveryDeploymentHasAMemoryLimit(t *testing.T) {
	files, err := filepath.Glob("../../manifests/30-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deployments := 0
	for _, file := range append(files, "../../manifests/farm/30-server.yaml") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			var deployment appsv1.Deployment
			if err := decoder.Decode(&deployment); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if deployment.Kind != "Deployment" {
				continue
			}
			deployments++
			for _, container := range deployment.Spec.Template.Spec.Containers {
				says := false
				for _, variable := range container.Env {
					from := variable.ValueFrom
					says = says || variable.Name == memoryLimitVariable && from != nil && from.ResourceFieldRef != nil &&
						from.ResourceFieldRef.Resource == "limits.memory" && from.ResourceFieldRef.Divisor.IsZero()
					if variable.Name == "GOMEMLIMIT" {
						t.Errorf("%s: GOMEMLIMIT is set, which leaves no room below the limit", file)
					}
				}
				if !says || container.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s: container %s has no %s, or no limits.memory", file, container.Name, memoryLimitVariable)
				}
			}
		}
	}
	if deployments < 4 {
		t.Errorf("%d Deployments: this test looks in the wrong place", deployments)
	}
}

// The numbers of pkg/inflight are for the Deployment of ActionSets as shipped.
func TestShippedMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	content, err := os.ReadFile("../../manifests/30-actions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	limit := regexp.MustCompile(`limits: {memory: (.*)}`).FindSubmatch(content)
	if limit == nil {
		t.Fatal("no limits.memory")
	}
	quantity := resource.MustParse(string(limit[1]))
	if _, err := limitMemory(func(name string) string {
		return map[string]string{memoryLimitVariable: strconv.FormatInt(quantity.Value(), 10)}[name]
	}); err != nil {
		t.Fatal(err)
	}
	if n := inflight.ForMemory(10_000); n != 10_000 {
		t.Errorf("with limits.memory %s, got %d for 10000", &quantity, n)
	}
}
