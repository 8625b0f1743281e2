// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/utils/ptr"
)

var rows = []Row{
	{Name: "cold start", Unit: Seconds, Value: 6.424, Goal: ptr.To(7.1), Samples: []float64{6.1, 6.424, 6.9}},
	{Name: "overhead", Unit: Times, Value: 1.25, Goal: ptr.To(1.2), Floor: ptr.To(1.3)},
	{Name: "requests", Unit: Requests, Value: 5, Goal: ptr.To(4.0), Note: "a GET too many"},
	{Name: "mean", Unit: Requests, Value: 4.002, Goal: ptr.To(4.0)},
	{Name: "by a Deployment", Unit: Seconds, Value: 5},
}

func TestTheTableIsAlignedAndMarksTheGoalsThatWereNotReached(t *testing.T) {
	var got bytes.Buffer
	if err := New(nil, rows).Table(&got); err != nil {
		t.Fatal(err)
	}
	want := `row               value    goal
cold start        6.42 s   7.10 s   6.10 s to 6.90 s in 3 runs
overhead          1.25x    1.20x    above the goal, at most 1.30x allowed
requests          5        4        MISSED; a GET too many
mean              4.00     4        MISSED
by a Deployment   5.00 s   -
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &got, want)
	}
}

func TestTheJSONHasWhatTheTableHasAndTheSetting(t *testing.T) {
	var written bytes.Buffer
	if err := New(map[string]string{"cores": "2"}, rows).JSON(&written); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(written.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Setting["cores"] != "2" || len(got.Rows) != len(rows) {
		t.Fatalf("got %+v", got)
	}
	var verdicts []Verdict
	for _, row := range got.Rows {
		verdicts = append(verdicts, row.Verdict)
	}
	if want := []Verdict{Reached, Within, Missed, Missed, NotDecided}; !slices.Equal(verdicts, want) {
		t.Errorf("the verdicts are %q, want %q", verdicts, want)
	}
	if got.Rows[4].Goal != nil || !slices.Equal(got.Rows[0].Samples, rows[0].Samples) {
		t.Errorf("the goal of the last row is %v, the samples of the first are %v", got.Rows[4].Goal, got.Rows[0].Samples)
	}
}

func TestMedianIsOfTheMiddleAndLeavesTheSamplesAlone(t *testing.T) {
	for _, test := range []struct {
		samples []float64
		want    float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 2, 9}, 3},
	} {
		before := slices.Clone(test.samples)
		if got := Median(test.samples); got != test.want {
			t.Errorf("the median of %v is %v, want %v", test.samples, got, test.want)
		}
		if !slices.Equal(test.samples, before) {
			t.Errorf("%v became %v", before, test.samples)
		}
	}
}

func TestAPercentileIsASampleThatSoManyDoNotExceed(t *testing.T) {
	var samples []float64
	for i := range 400 {
		samples = append(samples, float64(400-i))
	}
	for of, want := range map[int]float64{50: 200, 99: 396, 100: 400} {
		if got := Percentile(samples, of); got != want {
			t.Errorf("of %d %% it is %v, want %v", of, got, want)
		}
	}
	if got := Percentile([]float64{3}, 99); got != 3 {
		t.Errorf("of one sample it is %v", got)
	}
	if got := Percentile(nil, 99); got != 0 {
		t.Errorf("of none it is %v", got)
	}
}

func TestRatiosAreOfRunsThatFollowedEachOther(t *testing.T) {
	if got, want := Ratios([]float64{6, 12, 9}, []float64{5, 10}), []float64{1.2, 1.2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
