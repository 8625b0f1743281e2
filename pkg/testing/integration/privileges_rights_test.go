// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// kubernetesOwn are roles of Kubernetes itself, which no manifest has: the rights to delegate authentication and authorization, and to read
// the certificate authority of the front proxy.
var kubernetesOwn = []string{"system:auth-delegator", "extension-apiserver-authentication-reader"}

// applicationRole is a shipped ClusterRole that the manifests do not bind. The administrator of an application's namespace binds it there to
// the ActionSet operator.
const applicationRole = "millwright-actions-application"

// rights are the roles and bindings of the manifests.
type rights struct {
	clusterRoles        []rbacv1.ClusterRole
	clusterRoleBindings []rbacv1.ClusterRoleBinding
	roles               []rbacv1.Role
	roleBindings        []rbacv1.RoleBinding
}

// rules returns the rules of all roles.
func (r *rights) rules() (rules []rbacv1.PolicyRule) {
	for _, role := range r.clusterRoles {
		rules = append(rules, role.Rules...)
	}
	for _, role := range r.roles {
		rules = append(rules, role.Rules...)
	}
	return rules
}

func readRights(t *testing.T, d deployment) *rights {
	t.Helper()
	found, err := shippedRights(d)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// shippedRights returns the rights of the Deployment's account, without Kubernetes' own roles. It reads all manifests, because each may grant
// rights.
func shippedRights(d deployment) (*rights, error) {
	all, err := allRights()
	if err != nil {
		return nil, err
	}
	ours := func(subjects []rbacv1.Subject) bool {
		return slices.Contains(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: d.namespace(), Name: string(d)})
	}
	var found rights
	for _, binding := range all.clusterRoleBindings {
		if !ours(binding.Subjects) || slices.Contains(kubernetesOwn, binding.RoleRef.Name) {
			continue
		}
		i := slices.IndexFunc(all.clusterRoles, func(role rbacv1.ClusterRole) bool { return role.Name == binding.RoleRef.Name })
		if i < 0 {
			return nil, fmt.Errorf("no manifest has the ClusterRole %s, which is bound to %s", binding.RoleRef.Name, d)
		}
		found.clusterRoles, found.clusterRoleBindings = append(found.clusterRoles, all.clusterRoles[i]), append(found.clusterRoleBindings, binding)
	}
	for _, binding := range all.roleBindings {
		if !ours(binding.Subjects) || slices.Contains(kubernetesOwn, binding.RoleRef.Name) {
			continue
		}
		found.roleBindings = append(found.roleBindings, binding)
		i := slices.IndexFunc(all.roles, func(role rbacv1.Role) bool {
			return role.Name == binding.RoleRef.Name && role.Namespace == binding.Namespace
		})
		ofCluster := slices.IndexFunc(all.clusterRoles, func(role rbacv1.ClusterRole) bool { return role.Name == binding.RoleRef.Name })
		switch {
		case binding.RoleRef.Kind == "ClusterRole" && ofCluster >= 0:
			found.clusterRoles = append(found.clusterRoles, all.clusterRoles[ofCluster])
		case binding.RoleRef.Kind == "Role" && i >= 0:
			found.roles = append(found.roles, all.roles[i])
		default:
			return nil, fmt.Errorf("no manifest has the %s %s, which is bound to %s", binding.RoleRef.Kind, binding.RoleRef.Name, d)
		}
	}
	if i := slices.IndexFunc(all.clusterRoles, func(role rbacv1.ClusterRole) bool { return role.Name == applicationRole }); d == actions {
		if i < 0 {
			return nil, fmt.Errorf("no manifest has the ClusterRole %s", applicationRole)
		}
		found.clusterRoles = append(found.clusterRoles, all.clusterRoles[i])
	}
	if len(found.clusterRoles) == 0 || len(found.roles) == 0 {
		return nil, fmt.Errorf("the manifests bind no ClusterRole, or no Role, to %s", d)
	}
	return &found, nil
}

func allRights() (*rights, error) {
	var all rights
	collect := func(kind string, document []byte) error {
		switch kind {
		case "ClusterRole":
			return appendTo(&all.clusterRoles, document)
		case "ClusterRoleBinding":
			return appendTo(&all.clusterRoleBindings, document)
		case "Role":
			return appendTo(&all.roles, document)
		case "RoleBinding":
			return appendTo(&all.roleBindings, document)
		default:
			return nil
		}
	}
	return &all, errors.Join(eachObject(manifests, collect), eachObject(farmManifests, collect))
}

// eachObject calls the function with each object of the files.
func eachObject(pattern string, do func(kind string, document []byte) error) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var object metav1.TypeMeta
			if err == nil {
				err = yaml.Unmarshal(document, &object)
			}
			if err == nil {
				err = do(object.Kind, document)
			}
			if err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
		}
	}
	return nil
}

func appendTo[T any](list *[]T, document []byte) error {
	var object T
	if err := yaml.UnmarshalStrict(document, &object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

// right is a verb that an account may use on a resource.
type right struct{ verb, group, resource string }

// String returns the right in kubectl's form: update machines/status.useless.container.training.
func (r right) String() string {
	return strings.TrimSuffix(r.verb+" "+r.resource+"."+r.group, ".")
}

// attributes returns the attributes of an access review of the right in all namespaces.
func (r right) attributes() authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(r.resource, "/")
	return authorizationv1.ResourceAttributes{Verb: r.verb, Group: r.group, Resource: resource, Subresource: subresource}
}

// rightsOf returns all rights that the rules grant, sorted.
func rightsOf(rules []rbacv1.PolicyRule) (granted []right) {
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					granted = append(granted, right{verb, group, resource})
				}
			}
		}
	}
	slices.SortFunc(granted, func(a, b right) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(granted)
}
