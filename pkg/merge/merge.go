// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"maps"
	"math"
	"slices"
)

// level is the set of members of an object, and of objects below it, that the desired object cannot change: they are neither merged nor
// compared. A nil level keeps nothing.
type level struct {
	kept  []string
	below map[string]*level
}

func (l *level) keeps(key string) bool { return l != nil && slices.Contains(l.kept, key) }

func (l *level) under(key string) *level {
	if l == nil {
		return nil
	}
	return l.below[key]
}

// mergeObject returns the observed object without what was applied last and is no longer desired, and with all that is desired. It returns
// the observed object itself if nothing differs.
func mergeObject(at *level, observed, applied, desired map[string]any) (merged map[string]any, differs bool) {
	merged = observed
	own := func() {
		if !differs {
			merged, differs = make(map[string]any, len(observed)+1), true
			maps.Copy(merged, observed)
		}
	}
	for key := range applied {
		if _, wanted := desired[key]; wanted || at.keeps(key) {
			continue
		}
		if _, found := observed[key]; found {
			own()
			delete(merged, key)
		}
	}
	for key, want := range desired {
		if at.keeps(key) {
			continue
		}
		if value, changed := mergeValue(at.under(key), observed[key], applied[key], want); changed {
			own()
			merged[key] = value
		}
	}
	return merged, differs
}

// mergeValue merges what is desired into what is observed, which is nil where there is nothing. So a null makes no difference
// there: API servers drop null members, and setting one would always differ. A value of another type replaces what is observed.
func mergeValue(at *level, observed, applied, desired any) (merged any, differs bool) {
	switch observed := observed.(type) {
	case map[string]any:
		want, ok := desired.(map[string]any)
		if !ok && desired != nil {
			return desired, true
		}
		last, _ := applied.(map[string]any)
		return mergeObject(at, observed, last, want)
	case []any:
		want, ok := desired.([]any)
		if !ok && desired != nil {
			return desired, true
		}
		last, _ := applied.([]any)
		if key := mapKey(observed, last, want); key != "" {
			return mergeKeyed(key, observed, last, want)
		}
		if listsMatch(observed, want) {
			return observed, false
		}
		return desired, true
	default:
		if matches(observed, desired) {
			return observed, false
		}
		return desired, true
	}
}

// matches reports whether the observed value equals the desired one for an API server: a null member equals a missing one, and 1.0 equals 1.
func matches(observed, desired any) bool {
	switch observed := observed.(type) {
	case nil:
		return desired == nil
	case map[string]any:
		desired, ok := desired.(map[string]any)
		return ok && objectsMatch(observed, desired)
	case []any:
		desired, ok := desired.([]any)
		return ok && listsMatch(observed, desired)
	case string:
		desired, ok := desired.(string)
		return ok && observed == desired
	case bool:
		desired, ok := desired.(bool)
		return ok && observed == desired
	case int64:
		switch desired := desired.(type) {
		case int64:
			return observed == desired
		case float64:
			return isInteger(desired, observed)
		}
	case float64:
		switch desired := desired.(type) {
		case int64:
			return isInteger(observed, desired)
		case float64:
			return observed == desired
		}
	}
	return false
}

func objectsMatch(observed, desired map[string]any) bool {
	seen := 0
	for key, want := range desired {
		have, found := observed[key]
		if found {
			seen++
		}
		if !found && want != nil || found && !matches(have, want) {
			return false
		}
	}
	return seen == len(observed)
}

func listsMatch(observed, desired []any) bool {
	return slices.EqualFunc(observed, desired, matches)
}

// isInteger reports whether f is exactly the integer i. Near 2^63, float64(i) rounds to what int64 cannot hold.
func isInteger(f float64, i int64) bool {
	return f >= -(1<<63) && f < 1<<63 && f == math.Trunc(f) && int64(f) == i
}
