// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/testing/perturbation"
)

// These acts are those of CompositeControllers and of DecoratorControllers with a customize hook. The value of children is that of the parent, and
// those of the related objects after it: "a-x".

// related is the name of the related ConfigMap, and the key of its label.
const related = "input"

// named is a rule for a related object by its name.
func named(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "resource": "configmaps", "names": []any{name}}
}

// relatedAct creates the related object, on which the parent then depends.
func relatedAct(e end) perturbation.Act {
	e.value = "a-x"
	return act("create the related object", makeConfigMap(related, "x", map[string]any{related: "true"}), e.reached)
}

// relatedActs create, change and delete the related object.
func relatedActs(e end) []perturbation.Act {
	changed := e
	changed.value = "a-y"
	return []perturbation.Act{
		relatedAct(e),
		act("change the related object", patch(configMaps, related, map[string]any{"data": map[string]any{"value": "y"}}), changed.reached),
		act("delete the related object", remove(configMaps, related, metav1.DeletePropagationBackground), e.reached),
	}
}

// ruleActs change the answer of the customize hook, then the labels of the namespace that it selects by. The related object exists.
func ruleActs(e end) []perturbation.Act {
	with := e
	with.value = "a-x"
	rule := map[string]any{
		"apiVersion": "v1", "resource": "configmaps",
		"labelSelector":     map[string]any{"matchLabels": map[string]any{related: "true"}},
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"tier": "gold"}},
	}
	return []perturbation.Act{
		act("let the answer select by labels", editWidget(spec{"related": []any{rule}}), e.reached),
		act("label the namespace", labelNamespace(`"gold"`), with.reached),
		act("remove the label of the namespace", labelNamespace("null"), e.reached),
	}
}

func labelNamespace(tier string) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		body := fmt.Appendf(nil, `{"metadata":{"labels":{"tier":%s}}}`, tier)
		_, err := user.Client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).
			Patch(ctx, user.Namespace, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	}
}
