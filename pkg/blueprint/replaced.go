// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// maxVersion is the longest version and constraint, in bytes.
const maxVersion = 256

// keys are the keys of all maps, each map's in order.
func keys(of ...map[string]any) []string {
	found := []string{}
	for _, m := range of {
		found = append(found, slices.Sorted(maps.Keys(m))...)
	}
	return found
}

// values are the map's values in the order of its keys.
func values(of map[string]any) []any {
	found := []any{}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		found = append(found, of[key])
	}
	return found
}

// sortAlpha gives a list of texts in order, and leaves the given one as it is.
func sortAlpha(list any) []string { return slices.Sorted(slices.Values(toStrings(list))) }

// toStrings makes texts of what a list holds.
var toStrings = theirs["toStrings"].(func(any) []string)

// until are the numbers from 0 to below the count, downwards if it is negative.
func until(count int) []int {
	if count < 0 {
		return untilStep(0, count, -1)
	}
	return untilStep(0, count, 1)
}

// untilStep are the numbers from start to before stop. It ends where sprig's would begin again at the smallest number.
func untilStep(start, stop, step int) []int {
	numbers := []int{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; {
		numbers = append(numbers, i)
		next := i + step
		if (next > i) != (step > 0) {
			break
		}
		i = next
	}
	return numbers
}

// seq are the numbers from 1 to the first argument; from the first to the second; or from the first by the second to the third, with
// blanks between.
func seq(params ...int) string {
	start, step, stop := 1, 1, 0
	switch len(params) {
	case 1:
		stop = params[0]
	case 2:
		start, stop = params[0], params[1]
	case 3:
		start, step, stop = params[0], params[1], params[2]
		if stop < start && step > 0 {
			return ""
		}
	default:
		return ""
	}
	end := stop + 1
	if stop < start {
		end = stop - 1
		if len(params) < 3 {
			step = -1
		}
	}
	numbers := untilStep(start, end, step)
	texts := make([]string, len(numbers))
	for i, number := range numbers {
		texts[i] = strconv.Itoa(number)
	}
	return strings.Join(texts, " ")
}

// merging maps with copies of others. The others may contain the map itself, which would then have no end while it is merged.
func merging(merge any) any {
	switch merge := merge.(type) {
	case func(map[string]any, ...map[string]any) any:
		return func(into map[string]any, others ...map[string]any) any { return merge(into, cloneMaps(others)...) }
	case func(map[string]any, ...map[string]any) (any, error):
		return func(into map[string]any, others ...map[string]any) (any, error) {
			return merge(into, cloneMaps(others)...)
		}
	default:
		panic(fmt.Sprintf("sprig merges by a %T", merge))
	}
}

func cloneMaps(of []map[string]any) []map[string]any {
	cloned := make([]map[string]any, len(of))
	for i := range of {
		cloned[i] = cloneMap(of[i])
	}
	return cloned
}

func readVersion(text string) (*semver.Version, error) {
	if len(text) > maxVersion {
		return nil, fmt.Errorf("the version is longer than %d bytes", maxVersion)
	}
	return semver.NewVersion(text)
}

func compareVersion(constraint, text string) (bool, error) {
	if len(constraint) > maxVersion {
		return false, fmt.Errorf("the constraint is longer than %d bytes", maxVersion)
	}
	constraints, err := semver.NewConstraint(constraint)
	if err != nil {
		return false, err
	}
	version, err := readVersion(text)
	if err != nil {
		return false, err
	}
	return constraints.Check(version), nil
}
