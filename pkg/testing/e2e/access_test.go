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
		t.Errorf("who may read the metrics gets %s: %s", code, body)
	}
	contains(t, "/metrics", body, `millwright_build_info{`, `version="e2e-1"`, `millwright_controller_syncs_total{controller="machine",result="success"}`)
	for _, other := range []string{engine, actions} {
		if code, body := s.get(t, ns, "prometheus", "--token", token, strings.Replace(url, core, other, 1)); code != "200" {
			t.Errorf("who may read the metrics of %s gets %s: %s", other, code, body)
		}
	}
	if code, _ := s.get(t, ns, "default", "--token", token, url); code != "403" {
		t.Errorf("who may not read them gets %s", code)
	}
	if code, _ := s.get(t, ns, "default", url); code != "401" {
		t.Errorf("somebody unknown gets %s", code)
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
	// Who commands the engine commands what it may do.
	contains(t, "kubectl auth can-i", s.KubectlFails(t, "auth", "can-i", "create", "compositecontrollers", "--as=edits"), "exit status 1")
	// And who writes ActionSets acts with the rights of their operator.
	s.Kubectl(t, "create", "rolebinding", "-n", ns, "operates", "--clusterrole=millwright-actions-edit", "--user=operates")
	for _, resource := range []string{"actionsets", "blueprints", "profiles"} {
		s.Kubectl(t, "get", resource, "-n", ns, "--as=views")
		contains(t, "kubectl auth can-i", s.KubectlFails(t, "auth", "can-i", "create", resource, "-n", ns, "--as=edits"), "exit status 1")
		s.Kubectl(t, "auth", "can-i", "create", resource, "-n", ns, "--as=operates")
		contains(t, "kubectl auth can-i", s.KubectlFails(t, "auth", "can-i", "update", resource, "--subresource=status", "-n", ns, "--as=operates"), "exit status 1")
	}
	s.Kubectl(t, "auth", "can-i", "patch", "helloapps", "--subresource=scale", "-n", ns, "--as=edits")
}
