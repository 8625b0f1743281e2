// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"strings"
	"testing"
)

func TestMergeObjects(t *testing.T) {
	testMerges(t, map[string]mergeCase{
		"what is as desired stays": {
			observed: "spec: {replicas: 1, template: {a: x}}",
			desired:  "spec: {replicas: 1, template: {a: x}}",
			want:     "spec: {replicas: 1, template: {a: x}}",
		},
		"what is not desired stays": {
			observed: "{spec: {replicas: 1, defaulted: 5}, data: {foreign: x}}",
			desired:  "{spec: {replicas: 1}, data: {}}",
			want:     "{spec: {replicas: 1, defaulted: 5}, data: {foreign: x}}",
		},
		"what is desired replaces what is observed": {
			observed: "spec: {replicas: 1, defaulted: 5}",
			desired:  "spec: {replicas: 2}",
			want:     "spec: {replicas: 2, defaulted: 5}",
		},
		"what is desired for the first time is added": {
			observed: "spec: {replicas: 1}", applied: "spec: {replicas: 1}",
			desired: "spec: {replicas: 1, template: {a: {b: c}}}",
			want:    "spec: {replicas: 1, template: {a: {b: c}}}",
		},
		"what was applied and is desired no more goes": {
			observed: "spec: {replicas: 1, paused: true}", applied: "spec: {replicas: 1, paused: true}",
			desired: "spec: {replicas: 1}",
			want:    "spec: {replicas: 1}",
		},
		"it goes even if another client has changed it": {
			observed: "spec: {replicas: 1, paused: maybe}", applied: "spec: {replicas: 1, paused: true}",
			desired: "spec: {replicas: 1}",
			want:    "spec: {replicas: 1}",
		},
		"it goes with all that others have put below it": {
			observed: "metadata: {labels: {app: x, foreign: y}}", applied: "metadata: {labels: {app: x}}",
			desired: "metadata: {}",
			want:    "metadata: {}",
		},
		"an object that is emptied keeps what others have put into it": {
			observed: "metadata: {labels: {app: x, foreign: y}}", applied: "metadata: {labels: {app: x}}",
			desired: "metadata: {labels: {}}",
			want:    "metadata: {labels: {foreign: y}}",
		},
		"annotations of others stay": {
			observed: "metadata: {annotations: {revision: '3', ours: a}}", applied: "metadata: {annotations: {ours: a}}",
			desired: "metadata: {annotations: {ours: b}}",
			want:    "metadata: {annotations: {revision: '3', ours: b}}",
		},
		"a scalar gives way to an object": {
			observed: "spec: {a: 1}", applied: "spec: {a: 1}", desired: "spec: {a: {b: 2}}", want: "spec: {a: {b: 2}}",
		},
		"a record of another type counts as none": {
			observed: "spec: {a: {b: 1}, l: [1]}", applied: "spec: {a: text, l: {x: 1}}",
			desired: "spec: {a: {c: 2}, l: [2]}", want: "spec: {a: {b: 1, c: 2}, l: [2]}",
		},
		"an empty object differs from none": {
			observed: "spec: {}", desired: "spec: {podSelector: {}}", want: "spec: {podSelector: {}}",
		},
	})
}

func TestMergeReplacesAValueByOneOfAnotherType(t *testing.T) {
	testMerges(t, map[string]mergeCase{
		"an object by a string": {
			observed: "{spec: {a: {b: 1, foreign: x}, c: d}}", applied: "{spec: {a: {b: 1}}}",
			desired: "{spec: {a: x}}", want: "{spec: {a: x, c: d}}",
		},
		"an object by a list": {
			observed: "spec: {a: {b: 1}}", applied: "spec: {a: {b: 1}}", desired: "spec: {a: [1]}", want: "spec: {a: [1]}",
		},
		"a list by an object": {
			observed: "spec: {a: [{name: x}]}", applied: "spec: {a: [{name: x}]}", desired: "spec: {a: {name: x}}", want: "spec: {a: {name: x}}",
		},
		"a list by a string": {
			observed: "spec: {a: [1]}", applied: "spec: {a: [1]}", desired: "spec: {a: x}", want: "spec: {a: x}",
		},
		"in an element that is found by its name": {
			observed: "spec: {l: [{name: a, x: {}}, {name: b, x: {}, y: z}]}", applied: "spec: {l: [{name: a, x: {}}, {name: b, x: {}}]}",
			desired: "spec: {l: [{name: a, x: {}}, {name: b, x: true}]}", want: "spec: {l: [{name: a, x: {}}, {name: b, x: true, y: z}]}",
		},
		"what another client has made of it": {
			observed: "spec: {a: [1]}", applied: "spec: {a: {b: 1}}", desired: "spec: {a: {b: 1}}", want: "spec: {a: {b: 1}}",
		},
		"a record of another type counts as none": {
			observed: "spec: {a: {b: 1, foreign: x}}", applied: "spec: {a: [1]}", desired: "spec: {a: {b: 2}}", want: "spec: {a: {b: 2, foreign: x}}",
		},
		"at the top": {
			observed: "data: {a: b}", applied: "data: {a: b}", desired: "data: x", want: "data: x",
		},
	})
}

func TestMergeNulls(t *testing.T) {
	testMerges(t, map[string]mergeCase{
		"a null replaces a scalar": {
			observed: "spec: {a: 1}", desired: "spec: {a: null}", want: "spec: {a: null}",
		},
		"a null where nothing is makes no difference": {
			observed: "spec: {template: {metadata: {labels: {a: b}}}}",
			desired:  "spec: {template: {metadata: {creationTimestamp: null, labels: {a: b}}}}",
			want:     "spec: {template: {metadata: {labels: {a: b}}}}",
		},
		"of an object a null takes only what was applied": {
			observed: "spec: {securityContext: {ours: 1, theirs: 2}}", applied: "spec: {securityContext: {ours: 1}}",
			desired: "spec: {securityContext: null}",
			want:    "spec: {securityContext: {theirs: 2}}",
		},
		"a null leaves a defaulted object alone": {
			observed: "spec: {securityContext: {}}", desired: "spec: {securityContext: null}", want: "spec: {securityContext: {}}",
		},
		"of a list that is a map a null takes only what was applied": {
			observed: "spec: {volumes: [{name: a}, {name: token}]}", applied: "spec: {volumes: [{name: a}]}",
			desired: "spec: {volumes: null}",
			want:    "spec: {volumes: [{name: token}]}",
		},
		"any other list becomes null": {
			observed: "spec: {args: [a]}", desired: "spec: {args: null}", want: "spec: {args: null}",
		},
		"a null in an element of such a list is as good as none": {
			observed: "spec: {tolerations: [{effect: NoExecute}]}",
			desired:  "spec: {tolerations: [{effect: NoExecute, tolerationSeconds: null}]}",
			want:     "spec: {tolerations: [{effect: NoExecute}]}",
		},
		"a null that is there and not desired stays": {
			observed: "spec: {a: null, b: 1}", desired: "spec: {b: 1}", want: "spec: {a: null, b: 1}",
		},
		"a null is replaced by what is desired": {
			observed: "spec: {a: null}", desired: "spec: {a: {b: 1}}", want: "spec: {a: {b: 1}}",
		},
	})
}

func TestMergeNumbers(t *testing.T) {
	testMerges(t, map[string]mergeCase{
		"1.0 is 1":               {observed: "spec: {a: 1, l: [1.5, 2]}", desired: "spec: {a: 1.0, l: [1.5, 2.0]}", want: "spec: {a: 1, l: [1.5, 2]}"},
		"1 is 1.0":               {observed: "spec: {a: 1.0}", desired: "spec: {a: 1}", want: "spec: {a: 1.0}"},
		"1.5 is not 1":           {observed: "spec: {a: 1}", desired: "spec: {a: 1.5}", want: "spec: {a: 1.5}"},
		"the text 1 is not 1":    {observed: "spec: {a: 1}", desired: "spec: {a: '1'}", want: "spec: {a: '1'}"},
		"2^53 + 1 is not 2^53.0": {observed: "spec: {a: 9007199254740993}", desired: "spec: {a: 9007199254740992.0}", want: "spec: {a: 9007199254740992.0}"},
		"2^63 is no int64":       {observed: "spec: {a: 9223372036854775807}", desired: "spec: {a: 9223372036854775808.0}", want: "spec: {a: 9223372036854775808.0}"},
	})
}

func TestMergePutsBackWhatADesiredObjectHasNoSayIn(t *testing.T) {
	testMerges(t, map[string]mergeCase{
		"status": {
			observed: "{status: {ready: 1, old: 1}, spec: {a: 1}}", applied: "{status: {old: 1}, spec: {a: 1, b: 2}}",
			desired: "{status: {ready: 2}, spec: {a: 1}}",
			want:    "{status: {ready: 1, old: 1}, spec: {a: 1}}",
		},
		"a status that is not there": {observed: "spec: {a: 1}", desired: "{status: {}, spec: {a: 1}}", want: "spec: {a: 1}"},
		"what the API server keeps in metadata": {
			observed: "metadata: {generation: 3, creationTimestamp: '2026-01-01T00:00:00Z', selfLink: /x, managedFields: [{manager: m}]}",
			desired:  "metadata: {generation: 1, creationTimestamp: null, selfLink: /y, managedFields: [], deletionTimestamp: null, deletionGracePeriodSeconds: 5, uid: u-0, resourceVersion: '1'}",
			want:     "metadata: {generation: 3, creationTimestamp: '2026-01-01T00:00:00Z', selfLink: /x, managedFields: [{manager: m}]}",
		},
		"owner references that the hook has returned once and does not any more": {
			observed: "metadata: {ownerReferences: [{name: p, uid: u-p}]}", applied: "metadata: {ownerReferences: [{name: p, uid: u-p}]}",
			desired: "metadata: {}",
			want:    "metadata: {ownerReferences: [{name: p, uid: u-p}]}",
		},
		"a finalizer list is the hook's, if it returns one": {
			observed: "metadata: {finalizers: [a]}", desired: "metadata: {finalizers: [b]}", want: "metadata: {finalizers: [b]}",
		},
	})
}

func TestUpdateNamesTheFieldThatCannotBeMerged(t *testing.T) {
	deep := map[string]any{}
	for range maxDepth + 1 {
		deep = map[string]any{"a": deep}
	}
	for name, test := range map[string]struct {
		observed, desired map[string]any
		want              string
	}{
		"an annotation that is not a text": {nil, tree(t, "metadata: {annotations: {a: 5}}"), "metadata.annotations[a]: this is a number, and annotations are strings"},
		"annotations in a list":            {nil, tree(t, "metadata: {annotations: [a]}"), "metadata.annotations: this is a list, and must be an object"},
		"a value that is not JSON":         {nil, map[string]any{"spec": map[string]any{"l": []any{int32(5)}}}, "spec.l[0]: this is a Go int32, which is no JSON value"},
		"too deep":                         {nil, deep, "objects and lists are nested more than 10000 levels deep"},
	} {
		t.Run(name, func(t *testing.T) {
			desired := child(test.desired)
			_, err := Update(recording(t, test.observed, nil), desired)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if len(err.Error()) > 600 {
				t.Errorf("the text has %d bytes, too many for an event", len(err.Error()))
			}
			if _, err := WithLastApplied(desired); test.observed == nil && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("creating: got %v, want %q", err, test.want)
			}
		})
	}
}
