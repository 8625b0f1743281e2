// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// openDeployment makes holes where values of the chart are, in the section of the values that has the name of the deployment. What the values
// replace here, they have as a default.
func openDeployment(object *unstructured.Unstructured, holes *holes) error {
	deployment := deploymentOf(object)
	if deployment == "" {
		return errors.New("no section of the values is for this Deployment")
	}
	values := ".Values." + deployment
	pod, found, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
	if err != nil || !found {
		return fmt.Errorf("no template of Pods: %w", err)
	}
	containers, _, err := unstructured.NestedSlice(pod, "containers")
	if err != nil || len(containers) != 1 {
		return fmt.Errorf("%d containers: must be 1: %w", len(containers), err)
	}
	container := containers[0].(map[string]any)
	args, _ := container["args"].([]any)
	if deployment == "core" {
		args = append(args, holes.line(`{{- if ne (include "millwright.namespace" .) "`+namespace+`" }}`+"\n- --farm-namespace="+namespaceTemplate+"\n{{- end }}"))
	}
	container["args"] = append(args, holes.line(list(values+".extraArgs")))
	container["image"] = holes.line(`image: {{ include "millwright.image" . | quote }}`)
	container["imagePullPolicy"] = holes.line("{{- with .Values.image.pullPolicy }}\nimagePullPolicy: {{ . }}\n{{- end }}")
	container["resources"] = holes.line(block("resources", values+".resources"))
	pod["containers"] = containers
	pod["imagePullSecrets"] = holes.line("{{- with .Values.image.pullSecrets }}\nimagePullSecrets:\n{{- range . }}\n- name: {{ . }}\n{{- end }}\n{{- end }}")
	pod["priorityClassName"] = holes.line("{{- with default .Values.priorityClassName " + values + ".priorityClassName }}\npriorityClassName: {{ . }}\n{{- end }}")
	for _, field := range []string{"affinity", "nodeSelector", "tolerations"} {
		pod[field] = holes.line(block(field, fmt.Sprintf("(default .Values.%s %s.%s)", field, values, field)))
	}
	for _, field := range []string{"annotations", "labels"} {
		value := fmt.Sprintf("%s.pod%s", values, strings.ToUpper(field[:1])+field[1:])
		if err := unstructured.SetNestedField(object.Object, holes.line(list(value)), "spec", "template", "metadata", field, "HOLE"); err != nil {
			return err
		}
	}
	if err := unstructured.SetNestedField(object.Object, holes.line("replicas: {{ "+values+".replicas }}"), "spec", "replicas"); err != nil {
		return err
	}
	return unstructured.SetNestedMap(object.Object, pod, "spec", "template", "spec")
}

// block is the template of a field with a value that may be empty.
func block(field, value string) string {
	return "{{- with " + value + " }}\n" + field + ":\n  {{- toYaml . | nindent DEEPER }}\n{{- end }}"
}

// list is the template of further elements of a list, or fields of a map.
func list(value string) string {
	return "{{- with " + value + " }}\n{{- toYaml . | nindent INDENT }}\n{{- end }}"
}
