// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
)

func (s *suite) testMetrics(t *testing.T) {
	ns := s.Namespace(t)
	const url = "https://" + core + "-metrics." + systemNamespace + ":8443/metrics"
	const token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	s.Kubectl(t, "create", "serviceaccount", "-n", ns, "prometheus")
	s.Kubectl(t, "create", "clusterrolebinding", ns, "--clusterrole=millwright-metrics-reader", "--serviceaccount="+ns+":prometheus")
	defer s.Kubectl(t, "delete", "clusterrolebinding", ns)

	code, body := s.get(t, ns, "prometheus", "--token", token, url)
	if code != "200" {
		t.Errorf("an account with the role gets status code %s, want 200: %s", code, body)
	}
	contains(t, "/metrics", body, `millwright_build_info{`, `version="e2e-1"`, `millwright_controller_syncs_total{controller="machine",result="success"}`)
	for _, other := range []string{engine, actions} {
		if code, body := s.get(t, ns, "prometheus", "--token", token, strings.Replace(url, core, other, 1)); code != "200" {
			t.Errorf("an account with the role gets status code %s from %s, want 200: %s", code, other, body)
		}
	}
	if code, _ := s.get(t, ns, "default", "--token", token, url); code != "403" {
		t.Errorf("an account without the role gets status code %s, want 403", code)
	}
	if code, _ := s.get(t, ns, "default", url); code != "401" {
		t.Errorf("a request without a token gets status code %s, want 401", code)
	}
}

func (s *suite) testRoles(t *testing.T) {
	ns := s.Namespace(t)
	s.Kubectl(t, "create", "rolebinding", "-n", ns, "views", "--clusterrole=view", "--user=views")
	s.Kubectl(t, "create", "rolebinding", "-n", ns, "edits", "--clusterrole=edit", "--user=edits")
	for _, resource := range []string{"immortalcontainers", "helloapps", "machines", "switches"} {
		s.Kubectl(t, "get", resource, "-n", ns, "--as=views")
		contains(t, "kubectl auth can-i", s.KubectlFails(t, "auth", "can-i", "delete", resource, "-n", ns, "--as=views"), "exit status 1")
		s.Kubectl(t, "auth", "can-i", "delete", resource, "-n", ns, "--as=edits")
		contains(t, "kubectl auth can-i", s.KubectlFails(t, "auth", "can-i", "update", resource, "--subresource=status", "-n", ns, "--as=edits"), "exit status 1")
	}
	// A user who may create CompositeControllers can do everything that the engine may do.
	contains(t, "kubectl auth can-i", s.KubectlFails(t, "auth", "can-i", "create", "compositecontrollers", "--as=edits"), "exit status 1")
	// A user who may create ActionSets can do everything that their operator may do.
	s.Kubectl(t, "create", "rolebinding", "-n", ns, "operates", "--clusterrole=millwright-actions-edit", "--user=operates")
	for _, resource := range []string{"actionsets", "blueprints", "profiles"} {
		s.Kubectl(t, "get", resource, "-n", ns, "--as=views")
		contains(t, "kubectl auth can-i", s.KubectlFails(t, "auth", "can-i", "create", resource, "-n", ns, "--as=edits"), "exit status 1")
		s.Kubectl(t, "auth", "can-i", "create", resource, "-n", ns, "--as=operates")
		contains(t, "kubectl auth can-i", s.KubectlFails(t, "auth", "can-i", "update", resource, "--subresource=status", "-n", ns, "--as=operates"), "exit status 1")
	}
	s.Kubectl(t, "auth", "can-i", "patch", "helloapps", "--subresource=scale", "-n", ns, "--as=edits")
}
