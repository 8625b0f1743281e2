// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// namespace is that of the kustomization. In templates it is the one of the release.
const namespace = "millwright-system"

const (
	namespaceTemplate = `{{ include "millwright.namespace" . }}`
	keepAnnotation    = "helm.sh/resource-policy"
	componentLabel    = "app.kubernetes.io/component"
)

// deployments are the parts of the operator that run as Pods. Each has a section of the values, which has its name.
var deployments = []string{"actions", "core", "engine", "farm"}

// deploymentOf returns which of the deployments the object belongs to, or "". The generated roles have no labels, but its name.
func deploymentOf(object *unstructured.Unstructured) string {
	name := strings.TrimPrefix(object.GetName(), "millwright-")
	if label := object.GetLabels()[componentLabel]; label != "" {
		name = label
	} else if object.GetKind() == "ServiceMonitor" && name == "farm-operator" {
		name = "farm"
	}
	if slices.Contains(deployments, name) {
		return name
	}
	return ""
}

// fileOf returns the name of the file with the template of the object.
func fileOf(object *unstructured.Unstructured, part part) string {
	switch deployment := deploymentOf(object); {
	case part.name != "":
		return part.name + ".yaml"
	case object.GetKind() == "CustomResourceDefinition":
		return "crds/" + object.GetName() + ".yaml"
	case deployment != "":
		return deployment + ".yaml"
	case object.GetKind() == "Namespace":
		return "namespace.yaml"
	default:
		return "users.yaml"
	}
}

// conditionOf returns the condition under which the object is installed; "" for always.
func conditionOf(object *unstructured.Unstructured, condition string) string {
	var all []string
	if condition != "" {
		all = append(all, condition)
	}
	deployment := deploymentOf(object)
	if deployment != "" {
		all = append(all, ".Values."+deployment+".enabled")
	}
	switch object.GetKind() {
	case "CustomResourceDefinition":
		all = append(all, ".Values.crds.install")
	case "Namespace":
		all = append(all, `(ne (include "millwright.namespace" .) .Release.Namespace)`)
	case "NetworkPolicy":
		all = append(all, ".Values.networkPolicy.enabled")
	case "PodDisruptionBudget":
		// With one replica it would block every drain of a node.
		all = append(all, ".Values.podDisruptionBudget.enabled", fmt.Sprintf("(gt (int .Values.%s.replicas) 1)", deployment))
	case "PrometheusRule":
		all = append(all, ".Values.monitoring.rules")
	case "Service":
		if strings.HasSuffix(object.GetName(), "-metrics") {
			all = append(all, ".Values.metrics.enabled")
		}
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return strings.Trim(all[0], "()")
	}
	return "and " + strings.Join(all, " ")
}

// templateOf returns the document of the object, as a template.
func templateOf(object *unstructured.Unstructured, condition string) (string, error) {
	object = object.DeepCopy()
	isCRD := object.GetKind() == "CustomResourceDefinition"
	var holes holes
	switch object.GetKind() {
	case "CustomResourceDefinition", "Namespace":
		annotate(object, keepAnnotation, holes.line(keepTemplate(isCRD)))
	case "Deployment":
		if err := openDeployment(object, &holes); err != nil {
			return "", err
		}
	}
	content, err := yaml.Marshal(object.Object)
	if err != nil {
		return "", err
	}
	text := strings.ReplaceAll(string(content), "{{", `{{ "{{" }}`)
	if !isCRD {
		text = strings.ReplaceAll(text, namespace, namespaceTemplate)
	}
	if object.GetKind() == "NetworkPolicy" {
		const port = "    - port: metrics\n"
		text = strings.ReplaceAll(text, port, "    {{- if .Values.metrics.enabled }}\n"+port+"    {{- end }}\n")
		const farm = "    - port: https\n"
		text = strings.ReplaceAll(text, farm, farm+"    {{- with .Values.networkPolicy.farmFrom }}\n    from:\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n")
	}
	if text, err = holes.fill(text); err != nil {
		return "", err
	}
	text = "---\n" + text
	if condition = conditionOf(object, condition); condition != "" {
		text = "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
	}
	return text, nil
}

// keepTemplate is the annotation with which uninstall keeps an object. The objects of users are deleted with a CRD and with the namespace.
func keepTemplate(isCRD bool) string {
	line := keepAnnotation + ": keep"
	if isCRD {
		return "{{- if .Values.crds.keep }}\n" + line + "\n{{- end }}"
	}
	return line
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// holes are lines of a document that are replaced by templates.
type holes []string

// line returns a value: the line that has it is replaced by the lines of the template, with the indentation of the line. In the template, the
// word INDENT becomes the number of its spaces, and DEEPER that of the next level.
func (h *holes) line(template string) string {
	*h = append(*h, template)
	return fmt.Sprintf("HOLE-%d-HOLE", len(*h)-1)
}

var holeLine = regexp.MustCompile(`(?m)^( *).*HOLE-(\d+)-HOLE.*\n`)

// fill replaces the lines of all holes.
func (h holes) fill(text string) (string, error) {
	filled := 0
	text = holeLine.ReplaceAllStringFunc(text, func(line string) string {
		filled++
		found := holeLine.FindStringSubmatch(line)
		var index int
		fmt.Sscan(found[2], &index)
		indent := found[1]
		template := strings.NewReplacer("INDENT", fmt.Sprint(len(indent)), "DEEPER", fmt.Sprint(len(indent)+2), "\n", "\n"+indent).Replace(h[index])
		return indent + template + "\n"
	})
	if filled != len(h) {
		return "", fmt.Errorf("%d of %d values of the chart have a place in the template", filled, len(h))
	}
	return text, nil
}
