// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// manifest reads a file of manifests into what it is.
func manifest(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// alert of a PrometheusRule.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (alerts []alert) {
	t.Helper()
	var rules struct {
		Spec struct{ Groups []struct{ Rules []alert } }
	}
	manifest(t, "monitoring/rules.yaml", &rules)
	for _, group := range rules.Spec.Groups {
		alerts = append(alerts, group.Rules...)
	}
	if len(alerts) < 10 {
		t.Fatalf("rules.yaml has %d alerts: this test looks in the wrong place", len(alerts))
	}
	return alerts
}

// labelOfAlert is how an annotation names a label of what fires.
var labelOfAlert = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlerts(t *testing.T) {
	c := newCatalogue(t, scrape(t))
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			if faults := c.faults(alert.Expr); len(faults) > 0 {
				t.Fatalf("%s\n%s", alert.Expr, strings.Join(faults, "\n"))
			}
			if severity := alert.Labels["severity"]; severity != "warning" && severity != "critical" {
				t.Errorf("severity %q", severity)
			}
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(alert.Expr)
			if err != nil {
				t.Fatal(err)
			}
			has := c.resultLabels(expr)
			for _, annotation := range []string{"summary", "description"} {
				text := alert.Annotations[annotation]
				if text == "" {
					t.Errorf("it has no %s", annotation)
				}
				for _, named := range labelOfAlert.FindAllStringSubmatch(text, -1) {
					if !has.Has(named[1]) {
						t.Errorf("its %s names the label %s, which it does not have", annotation, named[1])
					}
				}
			}
		})
	}
}

// grafanaVariables stand for what a user has chosen.
var grafanaVariables = strings.NewReplacer("$__rate_interval", "5m", "$kind", ".*")

func TestEveryPanelAsksForWhatIsServed(t *testing.T) {
	c := newCatalogue(t, scrape(t))
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			asked++
			if faults := c.faults(grafanaVariables.Replace(target.Expr)); len(faults) > 0 {
				t.Errorf("%s: %s\n%s", panel.Title, target.Expr, strings.Join(faults, "\n"))
			}
		}
	}
	if asked < 10 {
		t.Errorf("the dashboard has %d queries: this test looks in the wrong place", asked)
	}
}

func TestServiceMonitorPorts(t *testing.T) {
	for _, tc := range []struct {
		monitor, services string
		jobs              []string
	}{
		{"monitoring/service-monitor.yaml", "40-metrics.yaml", metricsJobs},
		{"monitoring/farm-service-monitor.yaml", "farm/30-server.yaml", farmJobs},
	} {
		var monitor serviceMonitor
		manifest(t, tc.monitor, &monitor)
		var names []string
		for _, service := range services(t, tc.services) {
			names = append(names, service.Metadata.Name)
			if service.Metadata.Namespace != monitor.Metadata.Namespace {
				t.Errorf("the Service is in %s, and looked for in %s", service.Metadata.Namespace, monitor.Metadata.Namespace)
			}
			for label, value := range monitor.Spec.Selector.MatchLabels {
				if service.Metadata.Labels[label] != value {
					t.Errorf("the Service has the label %s=%s, not %s", label, service.Metadata.Labels[label], value)
				}
			}
			endpoint := monitor.Spec.Endpoints[0]
			if endpoint.Port != service.Spec.Ports[0].Name || endpoint.Scheme != "https" || endpoint.BearerTokenFile == "" {
				t.Errorf("%+v is scraped, where %+v is served over HTTPS to those who show a token", endpoint, service.Spec.Ports)
			}
		}
		if !slices.Equal(names, tc.jobs) {
			t.Errorf("the Services are %s, and the jobs %s are looked for", names, tc.jobs)
		}
	}
}

// serviceMonitor is what is looked at of one.
type serviceMonitor struct {
	Metadata struct{ Namespace string }
	Spec     struct {
		Selector  struct{ MatchLabels map[string]string }
		Endpoints []struct{ Port, Scheme, BearerTokenFile string }
	}
}

// service is what is looked at of one.
type service struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec struct{ Ports []struct{ Name string } }
}

// services of a file of manifests.
func services(t *testing.T, file string) (services []service) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", file))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var found service
		if err := yaml.Unmarshal([]byte(document), &found); err != nil {
			t.Fatal(err)
		}
		if found.Kind == "Service" {
			services = append(services, found)
		}
	}
	return services
}
