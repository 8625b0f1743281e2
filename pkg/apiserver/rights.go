// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const (
	// rightsPatience is for bindings that are applied together with the Deployment.
	rightsPatience = 10 * time.Second
	rightsInterval = time.Second
)

// right is what the server must be allowed to do with one resource.
type right struct {
	verbs                            []string
	group, resource, namespace, name string
}

// grant is where a user finds rights, by the names that they have in manifests/farm.
type grant struct {
	by     string
	rights []right
}

var (
	readVerbs  = []string{"get", "list", "watch"}
	cacheVerbs = []string{"list", "watch"}
)

// neededRights are those without which the server would start, and then fail its users one request after the other.
func neededRights(o *Options) []grant {
	admission := func(resource string) right {
		return right{verbs: cacheVerbs, group: "admissionregistration.k8s.io", resource: resource}
	}
	server := grant{by: "ClusterRoleBinding to ClusterRole farm-operator-server", rights: []right{
		{verbs: readVerbs, resource: "namespaces"},
		admission("mutatingadmissionpolicies"), admission("mutatingadmissionpolicybindings"), admission("mutatingwebhookconfigurations"),
		admission("validatingadmissionpolicies"), admission("validatingadmissionpolicybindings"), admission("validatingwebhookconfigurations"),
	}}
	if o.LlamaStorage == storageRecords {
		verbs := []string{"create", "delete", "get", "list", "update", "watch"}
		server.rights = append(server.rights, right{verbs: verbs, group: "storage.farm.example.com", resource: "llamarecords"})
	}
	grants := []grant{
		{by: "RoleBinding in namespace kube-system to Role extension-apiserver-authentication-reader", rights: []right{
			{verbs: readVerbs, resource: "configmaps", namespace: metav1.NamespaceSystem, name: authoritiesConfigMap},
		}},
		{by: "ClusterRoleBinding to ClusterRole system:auth-delegator", rights: []right{
			{verbs: []string{"create"}, group: "authentication.k8s.io", resource: "tokenreviews"},
			{verbs: []string{"create"}, group: "authorization.k8s.io", resource: "subjectaccessreviews"},
		}},
		{by: "ClusterRoleBinding to ClusterRole farm-operator", rights: []right{{verbs: readVerbs, resource: "pods"}}},
		server,
	}
	if o.ServingSecret != "" {
		namespace, name, _ := splitName(o.ServingSecret)
		grants = append(grants, grant{by: "RoleBinding in namespace " + namespace + " to Role farm-operator-serving", rights: []right{
			{verbs: cacheVerbs, resource: "secrets", namespace: namespace, name: name},
		}})
	}
	if o.Features.EnablePriorityAndFairness {
		grants = append(grants, grant{by: "ClusterRoleBinding to a ClusterRole of your own, for --enable-priority-and-fairness", rights: []right{
			{verbs: readVerbs, group: "flowcontrol.apiserver.k8s.io", resource: "flowschemas"},
			{verbs: readVerbs, group: "flowcontrol.apiserver.k8s.io", resource: "prioritylevelconfigurations"},
		}})
	}
	return grants
}

// String is how a user reads it: get, list pods.
func (r right) String() string {
	text := strings.Join(r.verbs, ", ") + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.name != "" {
		text += " " + r.name
	}
	if r.namespace != "" {
		text += " in namespace " + r.namespace
	}
	return text
}

// awaitRights returns when the server has all the rights that it needs, or with an error that names the missing rights and how it
// gets them. It gives them some seconds to come.
func awaitRights(ctx context.Context, client kubernetes.Interface, needed []grant) error {
	var problem error
	var who string // asked once: in the last attempt there may be no time for it
	err := wait.PollUntilContextTimeout(ctx, rightsInterval, rightsPatience, true, func(ctx context.Context) (bool, error) {
		missing, err := missingRights(ctx, client, needed)
		switch {
		case ctx.Err() != nil: // the problem that was found before is more specific
		case err != nil:
			problem = fmt.Errorf("asking kube-apiserver which rights this server has: %w", err)
		case len(missing) > 0:
			if who == "" {
				who = whoAmI(ctx, client)
			}
			problem = lacking(cmp.Or(who, "The user of this process"), missing)
		default:
			problem = nil
			return true, nil
		}
		klog.FromContext(ctx).V(1).Info("Rights are missing, will look again", "problem", problem)
		return false, nil
	})
	if err != nil && problem != nil {
		return problem
	}
	return err
}

// missingRights returns what of the needed rights is not granted.
func missingRights(ctx context.Context, client kubernetes.Interface, needed []grant) ([]grant, error) {
	var missing []grant
	for _, from := range needed {
		lacks := grant{by: from.by}
		for _, one := range from.rights {
			refused, err := refusedVerbs(ctx, client, one)
			if err != nil {
				return nil, err
			}
			if len(refused) > 0 {
				one.verbs = refused
				lacks.rights = append(lacks.rights, one)
			}
		}
		if len(lacks.rights) > 0 {
			missing = append(missing, lacks)
		}
	}
	return missing, nil
}

// refusedVerbs checks all verbs of a right concurrently.
func refusedVerbs(ctx context.Context, client kubernetes.Interface, of right) ([]string, error) {
	allowed, errs := make([]bool, len(of.verbs)), make([]error, len(of.verbs))
	var asked sync.WaitGroup
	for i, verb := range of.verbs {
		asked.Go(func() {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: of.group, Resource: of.resource, Namespace: of.namespace, Name: of.name,
				},
			}}
			review, errs[i] = client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			allowed[i] = errs[i] == nil && review.Status.Allowed
		})
	}
	asked.Wait()
	var refused []string
	for i, verb := range of.verbs {
		if !allowed[i] {
			refused = append(refused, verb)
		}
	}
	return refused, errors.Join(errs...)
}

// lacking is the error that a user reads in the log of the Pod.
func lacking(who string, missing []grant) error {
	text := &strings.Builder{}
	fmt.Fprintf(text, "%s lacks rights without which this server cannot serve. manifests/farm/20-account.yaml and manifests/farm/21-role.yaml grant all of them to the ServiceAccount millwright-system/farm-operator: kubectl apply -f manifests/farm/20-account.yaml -f manifests/farm/21-role.yaml; and manifests/farm-tutorial/21-bindings.yaml, applied after these, to default/farm-operator of the tutorial. Missing are:", who)
	for _, from := range missing {
		fmt.Fprintf(text, "\n  %s, for:", from.by)
		for _, one := range from.rights {
			fmt.Fprintf(text, "\n    %s", one)
		}
	}
	return errors.New(text.String())
}

// whoAmI is the name of the user that kube-apiserver sees, or "" if it does not answer.
func whoAmI(ctx context.Context, client kubernetes.Interface) string {
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}
