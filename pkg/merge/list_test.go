// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMergeLists(t *testing.T) {
	testMerges(t, map[string]mergeCase{
		"a list of scalars is replaced": {
			observed: "spec: {args: [a, b]}", desired: "spec: {args: [b]}", want: "spec: {args: [b]}",
		},
		"so is a list of objects that share no key": {
			observed: "spec: {tolerations: [{effect: NoExecute, operator: Exists}, {effect: NoSchedule}]}",
			desired:  "spec: {tolerations: [{effect: NoExecute}]}",
			want:     "spec: {tolerations: [{effect: NoExecute}]}",
		},
		"so is one with an element that lacks the key": {
			observed: "spec: {l: [{name: a, defaulted: 1}]}", desired: "spec: {l: [{name: a}, {b: 1}]}",
			want: "spec: {l: [{name: a}, {b: 1}]}",
		},
		"so is one of which a removed element lacks the key": {
			observed: "spec: {l: [{name: a, defaulted: 1}]}", applied: "spec: {l: [{name: a}, {b: 1}]}", desired: "spec: {l: [{name: a}]}",
			want: "spec: {l: [{name: a}]}",
		},
		"an empty list replaces a list of scalars": {
			observed: "spec: {args: [a]}", desired: "spec: {args: []}", want: "spec: {args: []}",
		},
		"elements with a name are merged": {
			observed: "spec: {containers: [{name: app, image: x:1, defaulted: y}, {name: sidecar, image: s}]}",
			desired:  "spec: {containers: [{name: app, image: x:2}]}",
			want:     "spec: {containers: [{name: app, image: x:2, defaulted: y}, {name: sidecar, image: s}]}",
		},
		"their order is that observed, and new ones come last in the order desired": {
			observed: "spec: {l: [{name: b}, {name: foreign}, {name: a}]}", applied: "spec: {l: [{name: a}, {name: b}]}",
			desired: "spec: {l: [{name: d}, {name: a}, {name: c}, {name: b}]}",
			want:    "spec: {l: [{name: b}, {name: foreign}, {name: a}, {name: d}, {name: c}]}",
		},
		"an element that was applied and is desired no more goes": {
			observed: "spec: {l: [{name: a, x: 1}, {name: b}, {name: foreign}]}", applied: "spec: {l: [{name: a}, {name: b}]}",
			desired: "spec: {l: [{name: b}]}",
			want:    "spec: {l: [{name: b}, {name: foreign}]}",
		},
		"an empty list takes only what was applied": {
			observed: "spec: {l: [{name: a}, {name: foreign}]}", applied: "spec: {l: [{name: a}]}", desired: "spec: {l: []}",
			want: "spec: {l: [{name: foreign}]}",
		},
		"the last element leaves an empty list": {
			observed: "spec: {l: [{name: a}]}", applied: "spec: {l: [{name: a}]}", desired: "spec: {l: []}", want: "spec: {l: []}",
		},
		"a member of an element that was applied and is desired no more goes": {
			observed: "spec: {l: [{name: a, x: 1, y: 2}]}", applied: "spec: {l: [{name: a, x: 1}]}", desired: "spec: {l: [{name: a}]}",
			want: "spec: {l: [{name: a, y: 2}]}",
		},
		"the container port is the key before the name": {
			observed: "spec: {ports: [{name: old, containerPort: 80, protocol: TCP}]}", applied: "spec: {ports: [{name: old, containerPort: 80}]}",
			desired: "spec: {ports: [{name: new, containerPort: 80}]}",
			want:    "spec: {ports: [{name: new, containerPort: 80, protocol: TCP}]}",
		},
		"the mount path is the key before the name": {
			observed: "spec: {m: [{name: v, mountPath: /a, x: 1}, {name: v, mountPath: /b}]}", applied: "spec: {m: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}",
			desired: "spec: {m: [{name: w, mountPath: /a}, {name: v, mountPath: /b}]}",
			want:    "spec: {m: [{name: w, mountPath: /a, x: 1}, {name: v, mountPath: /b}]}",
		},
		"a uid, an ip and a path are keys": {
			observed: "spec: {u: [{uid: 1, x: 1}], i: [{ip: '::', x: 1}], p: [{path: /, x: 1}]}",
			desired:  "spec: {u: [{uid: 1, y: 1}], i: [{ip: '::', y: 1}], p: [{path: /, y: 1}]}",
			want:     "spec: {u: [{uid: 1, x: 1, y: 1}], i: [{ip: '::', x: 1, y: 1}], p: [{path: /, x: 1, y: 1}]}",
		},
		"keys are compared as text": {
			observed: "spec: {l: [{port: 80, x: 1}, {port: http, x: 1}, {port: 1.5, x: 1}, {port: null, x: 1}, {port: {a: 1}, x: 1}]}",
			desired:  "spec: {l: [{port: '80'}, {port: http}, {port: '1.5'}, {port: <nil>}, {port: {a: 1}}]}",
			want:     "spec: {l: [{port: '80', x: 1}, {port: http, x: 1}, {port: '1.5', x: 1}, {port: <nil>, x: 1}, {port: {a: 1}, x: 1}]}",
		},
		"08 is not 8, and no number is 0": {
			observed: "spec: {l: [{port: '08'}, {port: ''}]}", desired: "spec: {l: [{port: 8}, {port: 0}]}",
			applied: "spec: {l: []}",
			want:    "spec: {l: [{port: '08'}, {port: ''}, {port: 8}, {port: 0}]}",
		},
		"lists of lists are replaced": {
			observed: "spec: {l: [[{name: a, x: 1}]]}", desired: "spec: {l: [[{name: a}]]}", want: "spec: {l: [[{name: a}]]}",
		},
	})
}

func TestMergeEqualKeys(t *testing.T) {
	testMerges(t, map[string]mergeCase{
		"53/TCP and 53/UDP of a Service stay what they are": {
			observed: "spec: {ports: [{name: dns-tcp, port: 53, protocol: TCP, nodePort: 30001}, {name: dns, port: 53, protocol: UDP, nodePort: 30002}]}",
			desired:  "spec: {ports: [{name: dns-tcp, port: 53, protocol: TCP}, {name: dns, port: 53, protocol: UDP}]}",
			want:     "spec: {ports: [{name: dns-tcp, port: 53, protocol: TCP, nodePort: 30001}, {name: dns, port: 53, protocol: UDP, nodePort: 30002}]}",
		},
		"whatever the order, and with TCP left out": {
			observed: "spec: {ports: [{name: dns, port: 53, protocol: UDP, nodePort: 30002}, {name: t, port: 53, protocol: TCP, nodePort: 30001}]}",
			desired:  "spec: {ports: [{name: t, port: 53}, {name: dns, port: 53, protocol: UDP}]}",
			want:     "spec: {ports: [{name: dns, port: 53, protocol: UDP, nodePort: 30002}, {name: t, port: 53, protocol: TCP, nodePort: 30001}]}",
		},
		"UDP is added to TCP": {
			observed: "spec: {ports: [{port: 53, protocol: TCP, nodePort: 30001}]}", applied: "spec: {ports: [{port: 53}]}",
			desired: "spec: {ports: [{port: 53, protocol: UDP}, {port: 53}]}",
			want:    "spec: {ports: [{port: 53, protocol: TCP, nodePort: 30001}, {port: 53, protocol: UDP}]}",
		},
		"and taken away": {
			observed: "spec: {ports: [{port: 53, protocol: TCP, nodePort: 1}, {port: 53, protocol: UDP}]}", applied: "spec: {ports: [{port: 53, protocol: UDP}, {port: 53}]}",
			desired: "spec: {ports: [{port: 53}]}",
			want:    "spec: {ports: [{port: 53, protocol: TCP, nodePort: 1}]}",
		},
		"one that another client has added to ours stays": {
			observed: "spec: {ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]}",
			desired:  "spec: {ports: [{containerPort: 53, protocol: TCP}]}",
			want:     "spec: {ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]}",
		},
		"a port of its own may change its protocol": {
			observed: "spec: {ports: [{port: 80, protocol: TCP, nodePort: 1}, {port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}",
			desired:  "spec: {ports: [{port: 80, protocol: UDP}, {port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}",
			want:     "spec: {ports: [{port: 80, protocol: UDP, nodePort: 1}, {port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}",
		},
		"and one of them may change its name": {
			observed: "spec: {ports: [{name: old, port: 53, protocol: TCP, nodePort: 1}, {name: dns, port: 53, protocol: UDP}]}",
			applied:  "spec: {ports: [{name: old, port: 53}, {name: dns, port: 53, protocol: UDP}]}",
			desired:  "spec: {ports: [{name: new, port: 53}, {name: dns, port: 53, protocol: UDP}]}",
			want:     "spec: {ports: [{name: new, port: 53, protocol: TCP, nodePort: 1}, {name: dns, port: 53, protocol: UDP}]}",
		},
		"two of one protocol do not take the place of another": {
			observed: "spec: {ports: [{containerPort: 53, protocol: UDP}]}", applied: "spec: {}",
			desired: "spec: {ports: [{containerPort: 53, hostPort: 1}, {containerPort: 53, hostPort: 2}]}",
			want:    "spec: {ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, hostPort: 1}, {containerPort: 53, hostPort: 2}]}",
		},
		"a list that another engine has collapsed is put right": {
			observed: "spec: {ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: UDP}]}",
			desired:  "spec: {ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}",
			applied:  "spec: {ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}",
			want:     "spec: {ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]}",
		},
		"subjects of one name in two namespaces stay two": {
			observed: "subjects: [{kind: ServiceAccount, name: default, namespace: a}, {kind: ServiceAccount, name: default, namespace: b}]",
			desired:  "subjects: [{kind: ServiceAccount, name: default, namespace: b}, {kind: ServiceAccount, name: default, namespace: c}]",
			applied:  "subjects: [{kind: ServiceAccount, name: default, namespace: a}, {kind: ServiceAccount, name: default, namespace: b}]",
			want:     "subjects: [{kind: ServiceAccount, name: default, namespace: b}, {kind: ServiceAccount, name: default, namespace: c}]",
		},
		"backends with one port are distinguished by their names": {
			observed: "spec: {b: [{name: x, port: 80, weight: 1}, {name: y, port: 80, weight: 1}]}",
			desired:  "spec: {b: [{name: y, port: 80}, {name: x, port: 80}]}",
			want:     "spec: {b: [{name: x, port: 80, weight: 1}, {name: y, port: 80, weight: 1}]}",
		},
		"two fields may be needed": {
			observed: "spec: {l: [{port: 1, name: a, path: /}, {port: 1, name: a, path: /x}, {port: 1, name: b, path: /, d: 1}]}",
			desired:  "spec: {l: [{port: 1, name: b, path: /}, {port: 1, name: a, path: /x}, {port: 1, name: a, path: /}]}",
			want:     "spec: {l: [{port: 1, name: a, path: /}, {port: 1, name: a, path: /x}, {port: 1, name: b, path: /, d: 1}]}",
		},
		"a field that the API server defaults on one side distinguishes nothing": {
			observed: "spec: {l: [{name: a, kind: Service, v: 1}, {name: a, kind: Service, v: 2}]}",
			desired:  "spec: {l: [{name: a, v: 1}, {name: a, kind: Service, v: 2}]}",
			want:     "spec: {l: [{name: a, kind: Service, v: 1}, {name: a, kind: Service, v: 2}]}",
		},
		"a variable that is set twice is matched by rank": {
			observed: "spec: {env: [{name: A, value: '1'}, {name: B, value: x}, {name: A, value: '2'}]}",
			desired:  "spec: {env: [{name: A, value: '1'}, {name: B, value: x}, {name: A, value: '3'}]}",
			want:     "spec: {env: [{name: A, value: '1'}, {name: B, value: x}, {name: A, value: '3'}]}",
		},
		"and is set once when it is desired once": {
			observed: "spec: {env: [{name: A, value: '1'}, {name: A, value: '2'}]}", applied: "spec: {env: [{name: A, value: '1'}, {name: A, value: '2'}]}",
			desired: "spec: {env: [{name: A, value: '2'}]}",
			want:    "spec: {env: [{name: A, value: '2'}]}",
		},
		"containers with one name stay two": {
			observed: "spec: {containers: [{name: a, image: x, d: 1}, {name: a, image: y, d: 2}]}",
			desired:  "spec: {containers: [{name: a, image: x}, {name: a, image: z}]}",
			want:     "spec: {containers: [{name: a, image: x, d: 1}, {name: a, image: z, d: 2}]}",
		},
	})
}

func TestMergeLongLists(t *testing.T) {
	// Long lists are searched in another way.
	var observed, desired, want []any
	for i := range 50 {
		port, protocol := int64(i/2), []any{"TCP", "UDP"}[i%2]
		observed = append(observed, map[string]any{"port": port, "protocol": protocol, "nodePort": int64(i)})
		want = append(want, map[string]any{"port": port, "protocol": protocol, "nodePort": int64(i), "name": fmt.Sprint(i)})
		desired = append(desired, map[string]any{"port": port, "protocol": protocol, "name": fmt.Sprint(i)})
	}
	foreign, added := map[string]any{"port": int64(1000)}, map[string]any{"port": int64(2000)}
	observed, desired, want = append(observed, foreign), append(desired, added), append(want, foreign, added)
	merged, differs := mergeValue(nil, observed, nil, desired)
	if diff := cmp.Diff(any(want), merged); diff != "" || !differs {
		t.Errorf("differs %v:\n%s", differs, diff)
	}
	if _, differs := mergeValue(nil, merged, nil, desired); differs {
		t.Error("merging again differs")
	}
}
