// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

// mapKeys are the fields by which a list is a map. The first that all elements have is the key.
var mapKeys = []string{"containerPort", "port", "mountPath", "name", "uid", "ip", "path"}

// mapKey returns the key of these lists: all elements of all lists are objects that have it. It is "" if there is none.
func mapKey(lists ...[]any) string {
	for _, key := range mapKeys {
		if elements, all := allHave(key, lists); all && elements > 0 {
			return key
		}
	}
	return ""
}

func allHave(key string, lists [][]any) (elements int, all bool) {
	for _, list := range lists {
		for _, element := range list {
			object, _ := element.(map[string]any)
			if _, has := object[key]; !has {
				return 0, false
			}
			elements++
		}
	}
	return elements, true
}

// mergeKeyed merges lists that are maps by a field. What was observed keeps its order; what is new comes after it, in the
// order desired.
func mergeKeyed(key string, observed, applied, desired []any) (merged []any, differs bool) {
	have, last, want := identify(key, observed, applied, desired)
	own := func(kept int) {
		if !differs {
			merged = make([]any, 0, len(observed)+len(desired))
			merged, differs = append(merged, observed[:kept]...), true
		}
	}
	for i, element := range observed {
		same, before := want.find(have.ids[i]), last.find(have.ids[i])
		if same < 0 && before >= 0 || have.ids[i].among == surplus {
			own(i)
			continue
		}
		if same >= 0 {
			var lastElement map[string]any
			if before >= 0 {
				lastElement = applied[before].(map[string]any)
			}
			if object, changed := mergeObject(nil, element.(map[string]any), lastElement, desired[same].(map[string]any)); changed {
				own(i)
				element = object
			}
		}
		if differs {
			merged = append(merged, element)
		}
	}
	for i, element := range desired {
		if have.find(want.ids[i]) < 0 {
			own(len(observed))
			merged = append(merged, element)
		}
	}
	if !differs {
		return observed, false
	}
	return merged, true
}
