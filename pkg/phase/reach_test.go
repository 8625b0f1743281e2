// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRefuseSecret(t *testing.T) {
	secret := func(namespace string, kind corev1.SecretType, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s", Labels: labels}, Type: kind}
	}
	ours := map[string]string{"app.kubernetes.io/managed-by": "millwright"}
	for name, test := range map[string]struct {
		own     string
		secret  *corev1.Secret
		refused bool
	}{
		"credentials in its namespace":         {"system", secret("system", corev1.SecretTypeOpaque, nil), false},
		"credentials of the operator":          {"ops", secret("system", corev1.SecretTypeOpaque, nil), true},
		"credentials of an application":        {"ops", secret("shop", corev1.SecretTypeOpaque, nil), false},
		"a token of the operator":              {"system", secret("system", corev1.SecretTypeServiceAccountToken, nil), true},
		"a token of an application":            {"system", secret("shop", corev1.SecretTypeServiceAccountToken, nil), true},
		"a token in its own namespace":         {"ops", secret("ops", corev1.SecretTypeServiceAccountToken, nil), true},
		"a snapshot":                           {"ops", secret("ops", "millwright.dev/actionset-run", ours), true},
		"the key of a certificate":             {"system", secret("default", corev1.SecretTypeTLS, ours), true},
		"a certificate of a user":              {"system", secret("system", corev1.SecretTypeTLS, nil), false},
		"a certificate of a user of elsewhere": {"ops", secret("shop", corev1.SecretTypeTLS, nil), false},
	} {
		reach := Reach{Operator: "system", Served: test.own}
		if err := reach.RefuseSecret(test.own, test.secret, test.secret.Type); (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err := (Reach{}).RefuseSecret("ops", secret("system", corev1.SecretTypeOpaque, nil), corev1.SecretTypeOpaque); err != nil {
			t.Errorf("the operator's namespace is not known: %v", err)
		}
	}
}

func TestRefuseChange(t *testing.T) {
	sets, secrets := schema.GroupResource{Group: "cr.kanister.io", Resource: "actionsets"}, schema.GroupResource{Resource: "secrets"}
	for name, test := range map[string]struct {
		reach           Reach
		resource        schema.GroupResource
		namespace, name string
		refused         bool
	}{
		"an ActionSet of its namespace":      {Reach{"system", "ops"}, sets, "ops", "a", false},
		"one elsewhere":                      {Reach{"system", ""}, sets, "shop", "a", true},
		"a Blueprint elsewhere":              {Reach{"system", "ops"}, schema.GroupResource{Group: "cr.kanister.io", Resource: "blueprints"}, "shop", "a", true},
		"a Deployment elsewhere":             {Reach{"system", "ops"}, schema.GroupResource{Group: "apps", Resource: "deployments"}, "shop", "a", false},
		"the operator's namespace":           {Reach{"system", "ops"}, schema.GroupResource{Resource: "namespaces"}, "", "system", true},
		"the served namespace":               {Reach{"system", "ops"}, schema.GroupResource{Resource: "namespaces"}, "", "ops", true},
		"another namespace":                  {Reach{"system", ""}, schema.GroupResource{Resource: "namespaces"}, "", "shop", false},
		"a Secret of an application":         {Reach{"system", "ops"}, secrets, "shop", "a", false},
		"a Secret in the served namespace":   {Reach{"system", "ops"}, secrets, "ops", "a", true},
		"a Secret, all namespaces served":    {Reach{"system", ""}, secrets, "shop", "a", true},
		"a snapshot":                         {Reach{"system", "ops"}, secrets, "shop", "actionset-run-1", true},
		"a ConfigMap in a served namespace":  {Reach{"system", "ops"}, schema.GroupResource{Resource: "configmaps"}, "ops", "a", false},
		"a Secret in the operator's own one": {Reach{"system", "ops"}, secrets, "system", "a", true},
	} {
		if err := test.reach.RefuseChange("ops", test.resource, test.namespace, test.name); (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
