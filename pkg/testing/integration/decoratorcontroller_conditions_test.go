// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

func TestDecoratorNotReadyReasons(t *testing.T) {
	t.Parallel()
	target := "resources: [{apiVersion: test.example.com/v1, resource: widgets}]\n"
	sync := "hooks: {sync: {webhook: {url: HOOK/sync}}}\n"
	selecting := func(selector string) string {
		return "resources: [{apiVersion: v1, resource: services}, {apiVersion: test.example.com/v1, resource: widgets, " + selector + "}]\n" + sync
	}
	attachment := func(more string) string { return "attachments: [{apiVersion: v1, resource: configmaps" + more + "}]\n" }
	for name, test := range map[string]struct{ spec, reason, text string }{
		"no hooks":               {target, "InvalidSpec", "no hooks defined"},
		"hooks without webhooks": {target + "hooks: {sync: {}, finalize: {}}", "InvalidSpec", "neither sync nor finalize"},
		"no resources":           {"resources: []\n" + sync, "InvalidSpec", "spec.resources"},
		"RollingRecreate":        {target + sync + attachment(", updateStrategy: {method: RollingRecreate}"), "InvalidSpec", "use Recreate instead of RollingRecreate"},
		"RollingInPlace":         {target + sync + attachment(", updateStrategy: {method: RollingInPlace}"), "InvalidSpec", "spec.attachments[0].updateStrategy.method"},
		"hook without address":   {target + "hooks: {sync: {webhook: {path: /sync}}}", "InvalidHook", "sync hook"},
		"invalid label selector": {selecting("labelSelector: {matchExpressions: [{key: a, operator: Like}]}"), "InvalidSpec", "spec.resources[1].labelSelector"},
		"invalid annotation selector": {selecting("annotationSelector: {matchExpressions: [{key: a, operator: In, values: ['not a label']}]}"),
			"InvalidSpec", "spec.resources[1].annotationSelector"},
		"target type in two versions": {"resources: [{apiVersion: autoscaling/v1, resource: horizontalpodautoscalers}, " +
			"{apiVersion: autoscaling/v2, resource: horizontalpodautoscalers}]\n" + sync, "InvalidSpec", "spec.resources[1]"},
		"attachment type in two versions": {target + sync + "attachments: [{apiVersion: autoscaling/v1, resource: horizontalpodautoscalers}, " +
			"{apiVersion: autoscaling/v2, resource: horizontalpodautoscalers}]", "InvalidSpec", "spec.attachments[1]"},
		"target not served":     {strings.Replace(target, "widgets", "gadgets", 1) + sync, "TargetNotServed", "gadgets.test.example.com"},
		"attachment not served": {target + sync + "attachments: [{apiVersion: test.example.com/v1, resource: gadgets}]", "AttachmentNotServed", "gadgets.test.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			e := decorating(t)
			dc := e.decorates(test.spec)
			if message := e.awaitDecorator(test.reason); !strings.Contains(message, test.text) {
				t.Errorf("message of the condition: got %q, want %q in it", message, test.text)
			}
			e.awaitEventOn(dc, "CreateError", test.text)
			// The author corrects the spec, and the engine serves it without a restart.
			e.hook.Answers(oneAttachment)
			e.parent("web")
			corrected := e.decorator(e.name, widgets)
			corrected.SetResourceVersion(e.look(decorator, e.name).GetResourceVersion())
			if _, err := e.at(decorator).Update(t.Context(), corrected, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			e.awaitChild("ConfigMap", "web")
			e.awaitDecorator(v1alpha1.ReasonServing)
		})
	}
}

func TestDecoratorEngineSelector(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(oneAttachment)
	dc := e.decorates(widgets)
	e.parent("web", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "web")
	e.change(decorator, e.name, fmt.Sprintf("{metadata: {labels: {%s: another}}}", engineTest))
	e.awaitEventOn(dc, "Stopped", e.name)
	calls := e.calm()
	e.change(widget, "web", "{spec: {who: you}}")
	if now := e.calm(); now > calls {
		t.Error("the hook was called for a DecoratorController of another engine")
	}
	e.change(decorator, e.name, fmt.Sprintf("{metadata: {labels: {%s: %s}}}", engineTest, e.servedBy))
	e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
}

// namedRule matches the rule in the message of the condition, for targets and attachments, and for related objects.
var namedRule = regexp.MustCompile(`rule \{?apiGroups: \["(.*?)"\], resources: \["(.*?)"\](?:, resourceNames: \["(.*?)"\])?, verbs: \[(.*?)\]`)

// A user who grants the rules that the condition names, one after the other, ends with a DecoratorController that works.
func TestDecoratorMissingRights(t *testing.T) {
	t.Parallel()
	e := newDecoratorEnv(t)
	group := e.name + ".example.com"
	for _, resource := range []string{"gizmos", "parts", "plans"} {
		requests[engine].expectForbidden(schema.GroupResource{Group: group, Resource: resource})
	}
	e.definition("Gizmo", "gizmos", "{status: {}}")
	e.definition("Part", "parts", "{}")
	e.definition("Plan", "plans", "{}")
	e.eventually(func() string { // a definition is served a moment after it is established
		_, err := e.at("Plan."+group+"/v1").Create(t.Context(), object(t, "{apiVersion: %s/v1, kind: Plan, metadata: {name: secret}}", group), metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/customize" {
			return tree{"relatedResources": list{tree{"apiVersion": group + "/v1", "resource": "plans", "names": list{"secret"}}}}
		}
		if len(call.Related["Plan."+group+"/v1"]) != 1 {
			t.Errorf("the hook was called with the related objects %v, want all or no call", call.Related)
		}
		return tree{"status": tree{"seen": len(call.Attachments["Part."+group+"/v1"])}, "labels": tree{"decorated": "yes"},
			"attachments": list{object(t, "{apiVersion: %s/v1, kind: Part, metadata: {name: web}}", group).Object}}
	})
	e.run(&faultproxy.Journal{})
	e.decorates(`
resources: [{apiVersion: ` + group + `/v1, resource: gizmos, labelSelector: {}}]
attachments: [{apiVersion: ` + group + `/v1, resource: parts}]
hooks: {sync: {webhook: {url: HOOK/sync}}, customize: {webhook: {url: HOOK/customize}}}
`)
	target := "Gizmo." + group + "/v1"
	e.put("{apiVersion: %s/v1, kind: Gizmo, metadata: {name: web}}", group)
	var messages []string
	for {
		var message string
		e.eventually(func() string {
			for _, condition := range typed[v1alpha1.DecoratorController](t, e.look(decorator, e.name)).Status.Conditions {
				message = condition.Message
				isNew := len(messages) == 0 || messages[len(messages)-1] != message
				if condition.Reason == v1alpha1.ReasonForbidden && isNew || condition.Reason == v1alpha1.ReasonServing && e.seen(group) == 1 {
					return ""
				}
			}
			return "the condition Ready has not changed: " + message
		})
		rule := namedRule.FindStringSubmatch(message)
		if rule == nil {
			break
		}
		messages = append(messages, message)
		if len(messages) > 12 {
			t.Fatalf("the engine still misses rights: %s", strings.Join(messages, "\n"))
		}
		granted := rbacv1.PolicyRule{APIGroups: []string{rule[1]}, Resources: []string{rule[2]}, Verbs: strings.Split(strings.ReplaceAll(rule[4], `"`, ""), ", ")}
		if strings.Contains(message, "a Role of this account in the namespace "+e.namespace) {
			granted.ResourceNames = []string{rule[3]}
			e.grantEngineIn(e.namespace, granted)
		} else {
			e.grantEngine(granted)
		}
		// The engine tries again within a minute. An edit of the target makes it try immediately.
		e.change(target, "web", fmt.Sprintf("{metadata: {annotations: {rights: '%d'}}}", len(messages)))
	}
	t.Logf("messages:\n%s", strings.Join(messages, "\n"))
	if all := strings.Join(messages, "\n"); !strings.Contains(all, "gizmos") || !strings.Contains(all, "parts") || !strings.Contains(all, "plans") {
		t.Error("the messages do not name each of the types")
	}
	e.awaitChild("Part."+group+"/v1", "web")
	e.awaitChild(target, "web", has("yes", "metadata", "labels", "decorated"))
	e.awaitDecorator(v1alpha1.ReasonServing)
}
