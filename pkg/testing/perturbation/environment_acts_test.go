// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/perturbation"
)

// eventually waits until the check returns nil.
func eventually(ctx context.Context, check func() error) error {
	complaint := patience.Eventually(ctx, func() string {
		if err := check(); err != nil {
			return err.Error()
		}
		return ""
	})
	if complaint != "" {
		return errors.New(complaint)
	}
	return nil
}

// restrictedGroup has the rights of testdata/restricted.yaml.
const restrictedGroup = "restricted-engines"

// restrictedUser is the user of the engine of a run.
func restrictedUser(namespace string) string { return "engine:" + namespace }

var (
	roles        = rbacv1.SchemeGroupVersion.WithResource("roles")
	roleBindings = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
)

// makeRole creates a Role with all rights on resources.
func makeRole(name, group string, resources ...any) doing {
	return put(roles, "Role", name, nil, map[string]any{
		"rules": []any{map[string]any{"apiGroups": []any{group}, "resources": resources, "verbs": []any{"*"}}},
	})
}

// give binds the engine of the run to a Role, and waits until it has the right to the resource.
func give(role string, to schema.GroupVersionResource) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		bind := put(roleBindings, "RoleBinding", role, nil, map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "Role", "name": role},
			"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": restrictedUser(user.Namespace)}},
		})
		return in(bind, awaitRight(to, true))(ctx, user)
	}
}

// take takes the Role away.
func take(role string, to schema.GroupVersionResource) doing {
	return in(remove(roleBindings, role, metav1.DeletePropagationBackground), awaitRight(to, false))
}

// awaitRight waits until the API server allows or refuses the engine of the run what concerns a resource.
func awaitRight(to schema.GroupVersionResource, want bool) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		client, err := kubernetes.NewForConfig(user.Config)
		if err != nil {
			return err
		}
		return eventually(ctx, func() error {
			review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: restrictedUser(user.Namespace), Groups: []string{restrictedGroup},
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: user.Namespace, Verb: "update", Group: to.Group, Resource: to.Resource},
				},
			}, metav1.CreateOptions{})
			if err == nil && review.Status.Allowed != want {
				err = fmt.Errorf("the engine may update %s: %t, want %t", to.Resource, review.Status.Allowed, want)
			}
			return err
		})
	}
}

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// ownType is a type of the run alone: its definition concerns no other run.
func ownType(user *perturbation.User, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: user.RunName() + ".example.com", Version: "v1", Resource: plural}
}

// define creates the CustomResourceDefinition of a type of the run.
func define(kind, plural string) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		of := ownType(user, plural)
		anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		made := put(definitions, "CustomResourceDefinition", of.GroupResource().String(), map[string]any{"labels": map[string]any{perturbation.RunLabel: user.Namespace}},
			map[string]any{"spec": map[string]any{
				"group": of.Group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
				"versions": []any{map[string]any{
					"name": of.Version, "served": true, "storage": true,
					"subresources": map[string]any{"status": map[string]any{}}, "schema": map[string]any{"openAPIV3Schema": anything},
				}},
			}})
		return in(made, awaitServed(plural, true))(ctx, user)
	}
}

// setServed lets the API server serve a type of the run, or not.
func setServed(plural string, served bool) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		body := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/0/served","value":%t}]`, served)
		_, err := user.Objects(definitions).Patch(ctx, ownType(user, plural).GroupResource().String(), types.JSONPatchType, body, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return awaitServed(plural, served)(ctx, user)
	}
}

func awaitServed(plural string, want bool) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		return eventually(ctx, func() error {
			_, err := user.List(ctx, ownType(user, plural))
			switch {
			case err == nil && !want:
				return fmt.Errorf("%s are served", plural)
			case apierrors.IsNotFound(err) && !want:
				return nil
			default:
				return err
			}
		})
	}
}
