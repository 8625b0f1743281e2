// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/testutil"
)

// metricsJobs are the jobs of our targets: the names of the Services that are scraped. That of the API server of Llamas has another port.
var (
	metricsJobs = []string{"millwright-actions-metrics", "millwright-core-metrics", "millwright-engine-metrics"}
	farmJobs    = []string{"farm-operator"}
)

// targetLabels are what Prometheus adds to all that it scrapes through a ServiceMonitor.
var targetLabels = sets.New("job", "namespace", "service", "endpoint", "pod", "container", "instance")

// catalogue is what can be asked of a process: the labels of each metric, and the values that ours have.
type catalogue struct {
	labels map[string]sets.Set[string]
	// values of the labels of the metrics that are ours, and of the queues: those are closed sets.
	values map[string]sets.Set[string]
}

func newCatalogue(t *testing.T, text []byte) *catalogue {
	t.Helper()
	families, err := testutil.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := &catalogue{labels: map[string]sets.Set[string]{"up": {}}, values: map[string]sets.Set[string]{}}
	for name, family := range families {
		names := sets.New[string]()
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				names.Insert(label.GetName())
				if c.values[label.GetName()] == nil {
					c.values[label.GetName()] = sets.New[string]()
				}
				if hasClosedSets(name) {
					c.values[label.GetName()].Insert(label.GetValue())
				}
			}
		}
		if family.GetMetric()[0].GetHistogram() != nil {
			c.labels[name+"_sum"], c.labels[name+"_count"], c.labels[name+"_bucket"] = names, names, names.Clone().Insert("le")
		} else {
			c.labels[name] = names
		}
	}
	return c
}

// hasClosedSets reports whether all values of the metric's labels are known after a process has started.
func hasClosedSets(metric string) bool {
	return slices.ContainsFunc([]string{"millwright_", "kanister_", "workqueue_"}, func(prefix string) bool { return strings.HasPrefix(metric, prefix) })
}

// faults of an expression in PromQL, one line each.
func (c *catalogue) faults(expression string) (faults []string) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}
	}
	known := targetLabels.Clone()
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			known = known.Union(c.labels[selector.Name])
			faults = append(faults, c.faultsOf(selector)...)
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		for _, label := range labelsNamedIn(node) {
			if !known.Has(label) {
				faults = append(faults, fmt.Sprintf("no metric in it has the label %s", label))
			}
		}
		return nil
	})
	return faults
}

func labelsNamedIn(node parser.Node) []string {
	switch node := node.(type) {
	case *parser.AggregateExpr:
		return node.Grouping
	case *parser.BinaryExpr:
		if node.VectorMatching != nil {
			return append(node.VectorMatching.MatchingLabels, node.VectorMatching.Include...)
		}
	}
	return nil
}

func (c *catalogue) faultsOf(selector *parser.VectorSelector) (faults []string) {
	names, ok := c.labels[selector.Name]
	if !ok {
		return []string{fmt.Sprintf("the process serves no metric %s", selector.Name)}
	}
	isOurs := strings.HasPrefix(selector.Name, "millwright_")
	for _, matcher := range selector.LabelMatchers {
		switch {
		case matcher.Name == model.MetricNameLabel:
		case matcher.Name == "job":
			isOurs = isOurs || slices.ContainsFunc(metricsJobs, matcher.Matches) || slices.ContainsFunc(farmJobs, matcher.Matches)
		case targetLabels.Has(matcher.Name) && !names.Has(matcher.Name):
		case !names.Has(matcher.Name):
			faults = append(faults, fmt.Sprintf("%s has no label %s", selector.Name, matcher.Name))
		case hasClosedSets(selector.Name):
			faults = append(faults, c.strangeValues(selector.Name, matcher)...)
		}
	}
	if !isOurs {
		faults = append(faults, fmt.Sprintf("%s is served by others too: choose the job %s", selector.Name, strings.Join(metricsJobs, " or ")))
	}
	return faults
}

// strangeValues are those that the label is compared with and never has.
func (c *catalogue) strangeValues(metric string, matcher *labels.Matcher) (faults []string) {
	alternatives := []string{matcher.Value}
	if matcher.Type == labels.MatchRegexp || matcher.Type == labels.MatchNotRegexp {
		alternatives = strings.Split(matcher.Value, "|")
	}
	for _, alternative := range alternatives {
		is := labels.MustNewMatcher(labels.MatchRegexp, matcher.Name, alternative)
		if !slices.ContainsFunc(c.values[matcher.Name].UnsortedList(), is.Matches) {
			faults = append(faults, fmt.Sprintf("%s never has the %s %s", metric, matcher.Name, alternative))
		}
	}
	return faults
}

// resultLabels are those that what the expression yields may have.
func (c *catalogue) resultLabels(expr parser.Expr) sets.Set[string] {
	switch expr := expr.(type) {
	case *parser.AggregateExpr:
		return sets.New(expr.Grouping...)
	case *parser.BinaryExpr:
		return c.resultLabels(expr.LHS)
	case *parser.ParenExpr:
		return c.resultLabels(expr.Expr)
	case *parser.MatrixSelector:
		return c.resultLabels(expr.VectorSelector)
	case *parser.VectorSelector:
		return c.labels[expr.Name].Union(targetLabels)
	case *parser.Call:
		found := sets.New[string]()
		for _, argument := range expr.Args {
			found = found.Union(c.resultLabels(argument))
		}
		return found
	default:
		return sets.New[string]()
	}
}

func TestAQueryForWhatIsNotServedIsFound(t *testing.T) {
	c := newCatalogue(t, scrape(t))
	for name, tc := range map[string]struct{ expression, want string }{
		"what is served":                     {`rate(millwright_machine_flips_total{target="lever"}[5m])`, ""},
		"a regular expression of values":     {`millwright_objects{kind=~".*",state!~"Suspended|Conflict"}`, ""},
		"an unknown metric":                  {`sum(millwright_objekts)`, "the process serves no metric millwright_objekts"},
		"a histogram without its suffix":     {`rate(millwright_machine_flip_lateness_seconds[5m])`, "the process serves no metric millwright_machine_flip_lateness_seconds"},
		"a value of a metric of old":         {`kanister_action_set_resolutions_total{job=~"millwright-.*",resolution="failed"}`, "kanister_action_set_resolutions_total never has the resolution failed"},
		"a label that the metric lacks":      {`millwright_objects{reason="Ready"}`, "millwright_objects has no label reason"},
		"a value that the label never has":   {`millwright_objects{state="Redy"}`, "millwright_objects never has the state Redy"},
		"a value that is excluded, misspelt": {`millwright_objects{state!~"Suspended|Conflikt"}`, "millwright_objects never has the state Conflikt"},
		"a group by a label that is not":     {`sum by (reason) (millwright_objects)`, "no metric in it has the label reason"},
		"a match on a label that is not":     {`millwright_objects and on (shard) millwright_objects`, "no metric in it has the label shard"},
		"a metric of all, of any job":        {`go_goroutines`, "go_goroutines is served by others too: choose the job millwright-actions-metrics or millwright-core-metrics or millwright-engine-metrics"},
		"a metric of all, of another job":    {`go_goroutines{job="etcd"}`, "go_goroutines is served by others too: choose the job millwright-actions-metrics or millwright-core-metrics or millwright-engine-metrics"},
		"a queue that there is not":          {`workqueue_depth{job=~"millwright-.*",name="pods"}`, "workqueue_depth never has the name pods"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(c.faults(tc.expression), "; "); got != tc.want {
				t.Errorf("%s\ngot  %s\nwant %s", tc.expression, got, tc.want)
			}
		})
	}
	if got := c.faults("sum by (kind"); len(got) != 1 {
		t.Errorf("an expression that cannot be parsed: %q", got)
	}
}
