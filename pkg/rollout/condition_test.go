// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

// TestTimeOfCondition: lastTransitionTime is that of the last change of the status, and left out where the schema of the parent has dropped it.
func TestTimeOfCondition(t *testing.T) {
	const earlier, now = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	updated := func(fields map[string]any) map[string]any {
		fields["type"] = ConditionUpdated
		return map[string]any{"conditions": []any{map[string]any{"type": "Other", "lastTransitionTime": "never"}, fields}}
	}
	for name, test := range map[string]struct {
		before map[string]any
		want   any
	}{
		"no status":           {nil, now},
		"no list":             {map[string]any{"conditions": "none"}, now},
		"no such condition":   {map[string]any{"conditions": []any{"none"}}, now},
		"another status":      {updated(map[string]any{"status": "False", "lastTransitionTime": earlier}), now},
		"the same status":     {updated(map[string]any{"status": "True", "reason": "Other", "lastTransitionTime": earlier}), earlier},
		"the schema lacks it": {updated(map[string]any{"status": "True"}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			status := map[string]any{}
			if err := (&State{OnLatest: 1, All: 1}).SetCondition(status, test.before, at); err != nil {
				t.Fatal(err)
			}
			if got := status["conditions"].([]any)[0].(map[string]any)["lastTransitionTime"]; got != test.want {
				t.Errorf("lastTransitionTime is %v, want %v", got, test.want)
			}
		})
	}
}

// TestFieldsThatChangeByThemselves: with such a field a rolling update would begin with each write of the status.
func TestFieldsThatChangeByThemselves(t *testing.T) {
	for path, valid := range map[string]bool{
		"spec": true, "spec.template": true, "metadata.labels": true, "metadata.annotations.a": true, "data": true,
		"status": false, "status.replicas": false, "metadata": false, "metadata.resourceVersion": false, "metadata.generation": false, "spec..a": false,
	} {
		if _, err := ParseFields([]string{path}); (err == nil) != valid {
			t.Errorf("%s: the error is %v", path, err)
		}
	}
}
