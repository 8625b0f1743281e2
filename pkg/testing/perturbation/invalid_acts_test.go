// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metacontroller "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
)

// These acts are those of CompositeControllers and of DecoratorControllers that are edited to what cannot be served. Their parents have finalizers.

// foreignChild is an object with the name of a child that nothing desires and no parent owns: it stays as it is, foreignState.
const foreignChild, foreignState = "configmaps/web-8", "theirs (no owner)"

// foreign creates the foreign object.
func foreign(e end) perturbation.Act {
	return act("create a foreign object", makeConfigMap("web-8", "theirs", nil), withForeign(e).reached)
}

func withForeign(e end) end {
	e.others = []string{foreignChild + " " + foreignState}
	return e
}

// form is a spec that cannot be served, and the reason of the condition Ready.
type form struct {
	name   string
	spec   spec
	reason string
}

// forms are invalid ones, and the valid spec.
type forms struct {
	invalid []form
	valid   spec
}

// compositeForms returns the forms of a CompositeController.
func (h *widgetHook) compositeForms(with serving) forms {
	unknown := []any{map[string]any{"apiVersion": "v1", "resource": "nosuch"}}
	return forms{
		invalid: []form{
			{"no resource", spec{"parentResource": spec{"resource": ""}}, metacontroller.ReasonInvalidSpec},
			{"an unknown type of children", spec{"parentResource": served, "childResources": unknown}, metacontroller.ReasonChildNotServed},
			{"no hooks", spec{"hooks": nil}, metacontroller.ReasonInvalidSpec},
		},
		valid: h.compositeSpec(with),
	}
}

// decoratorForms returns the forms of a DecoratorController.
func (h *widgetHook) decoratorForms(with serving) forms {
	nonsense := []any{map[string]any{"apiVersion": "a/b/c", "resource": widgets.Resource}}
	return forms{
		invalid: []form{
			{"no resources", spec{"resources": []any{}}, metacontroller.ReasonInvalidSpec},
			{"resources of a nonsense apiVersion", spec{"resources": nonsense}, metacontroller.ReasonInvalidSpec},
		},
		valid: h.decoratorSpec(with),
	}
}

// invalidActs edit a CompositeController or a DecoratorController to the invalid forms, and mend it before the last of them and after it. The parent is
// edited meanwhile, and then deleted.
func invalidActs(of schema.GroupVersionResource, e end, forms forms) (acts []perturbation.Act) {
	e = withForeign(e)
	edit := func(to spec) doing { return patch(of, "", map[string]any{"spec": to}) }
	last := len(forms.invalid) - 1
	for _, form := range forms.invalid[:last] {
		kept := e
		kept.reason = form.reason
		acts = append(acts, act("give it "+form.name, edit(form.spec), kept.reached))
	}
	e.value = "b"
	kept := e
	kept.reason = forms.invalid[last].reason
	waiting := kept
	waiting.waits = true
	return append(acts,
		act("edit the parent, and mend it", in(editWidget(spec{"value": "b"}), edit(forms.valid)), e.reached),
		act("give it "+forms.invalid[last].name, edit(forms.invalid[last].spec), kept.reached),
		act("delete the parent", remove(widgets, name, metav1.DeletePropagationBackground), waiting.reached),
		act("mend it again", edit(forms.valid), withForeign(end{decorator: e.decorator, finalizer: true, noParent: true}).reached),
	)
}

// deletedWhileInvalidActs delete a CompositeController or a DecoratorController of which nothing valid is left.
func deletedWhileInvalidActs(of schema.GroupVersionResource, e end, to spec) []perturbation.Act {
	invalid, gone := withForeign(e), withForeign(e)
	invalid.reason = metacontroller.ReasonInvalidSpec
	gone.finalizer, gone.noController = false, true
	return []perturbation.Act{
		act("make all of it invalid", patch(of, "", map[string]any{"spec": to}), invalid.reached),
		act("delete it", removeController(of), gone.reached),
	}
}
