// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package samplehook

import (
	"fmt"
	"strings"
)

const rollingSet = "{apiVersion: example.com/v1, kind: RollingSet, metadata: {name: web, namespace: here}, spec: {replicas: 2, template: {metadata: {labels: {app: web}}, " +
	"spec: {containers: [{name: web, image: nginx}]}}}}"

// setPod returns the Pod of a RollingSet with this number, as it is desired, or as it is observed with the status of its condition Ready.
func setPod(number int, ready string) string {
	if ready != "" {
		return fmt.Sprintf(`{metadata: {name: web-%d, namespace: here}, status: {conditions: [{type: Ready, status: "%s"}]}}`, number, ready)
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: web-%d, labels: {app: web}}, spec: {hostname: web-%[1]d, containers: [{name: web, image: nginx}]}}", number)
}

// rollingCall returns a call about the RollingSet with these Pods.
func rollingCall(pods ...string) call {
	return composite("/sync", rollingSet, []group{some("v1", "Pod", pods...)}, nil)
}

var rollingSetCalls = map[string]answered{
	"no Pod":       {rollingCall(), "{status: {replicas: 0, readyReplicas: 0}, children: [" + setPod(0, "") + "]}"},
	"a starting":   {rollingCall(setPod(0, "False")), "{status: {replicas: 1, readyReplicas: 0}, children: [" + setPod(0, "") + "]}"},
	"a ready one":  {rollingCall(setPod(0, "True")), "{status: {replicas: 1, readyReplicas: 1}, children: [" + setPod(1, "") + ", " + setPod(0, "") + "]}"},
	"one too many": {rollingCall(setPod(0, "True"), setPod(1, "False"), setPod(2, "True")), "{status: {replicas: 3, readyReplicas: 2}, children: [" + setPod(1, "") + ", " + setPod(0, "") + "]}"},
}

const blueGreen = "{apiVersion: example.com/v1, kind: BlueGreen, metadata: {name: web, namespace: here}, spec: {replicas: 2, port: 80, template: {spec: {containers: [{name: web, image: new}]}}}}"

// replicaSet returns a ReplicaSet of the BlueGreen, as it is desired, or as it is observed with a current status and this many replicas that are available.
func replicaSet(color, image string, replicas, available int) string {
	labels := fmt.Sprintf("{bluegreen.example.com/name: web, bluegreen.example.com/color: %s}", color)
	spec := fmt.Sprintf("containers: [{name: web, image: %s}]", image)
	namespace := ""
	if available >= 0 {
		namespace = ", namespace: here, generation: 2"
	}
	text := fmt.Sprintf(`apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-%s%s, annotations: {bluegreen.example.com/template: '{"spec": {"containers": [{"image": "%s", "name": "web"}]}}'}}, `+
		"spec: {replicas: %d, selector: {matchLabels: %s}, template: {metadata: {labels: %[5]s}, spec: {%s}}}", color, namespace, image, replicas, labels, spec)
	if available >= 0 {
		text += fmt.Sprintf(", status: {replicas: %d, availableReplicas: %[1]d, observedGeneration: 2}", available)
	}
	return "{" + text + "}"
}

// staleStatus returns a ReplicaSet with the status of its generation before.
func staleStatus(replicaSet string) string {
	return strings.Replace(replicaSet, "observedGeneration: 2", "observedGeneration: 1", 1)
}

const desiredSet = -1 // available replicas of a ReplicaSet that is not observed

func blueGreenService(color string) string {
	return "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {bluegreen.example.com/name: web, bluegreen.example.com/color: " + color + "}, ports: [{port: 80}]}}"
}

// blueGreenCall returns a call about the BlueGreen whose Service selects blue, with these ReplicaSets.
func blueGreenCall(sets ...string) call {
	service := strings.Replace(blueGreenService("blue"), "name: web}", "name: web, namespace: here}", 1)
	return composite("/sync", blueGreen, []group{some("v1", "Service", service), some("apps/v1", "ReplicaSet", sets...)}, nil)
}

// blueGreenAnswer returns an answer with the active ReplicaSet first.
func blueGreenAnswer(active, phase string, sets ...string) string {
	return fmt.Sprintf("{status: {active: %s, phase: %s}, children: [%s, %s, %s]}", active, phase, blueGreenService(active), sets[0], sets[1])
}

var blueGreenCalls = map[string]answered{
	"nothing": {composite("/sync", blueGreen, []group{some("v1", "Service"), some("apps/v1", "ReplicaSet")}, nil),
		blueGreenAnswer("blue", "Stable", replicaSet("blue", "new", 2, desiredSet), replicaSet("green", "new", 0, desiredSet))},
	"another template": {blueGreenCall(replicaSet("blue", "old", 2, 2), replicaSet("green", "older", 0, 0)),
		blueGreenAnswer("blue", "Starting", replicaSet("blue", "old", 2, desiredSet), replicaSet("green", "new", 2, desiredSet))},
	"not all are available": {blueGreenCall(replicaSet("blue", "old", 2, 2), replicaSet("green", "new", 2, 1)),
		blueGreenAnswer("blue", "Starting", replicaSet("blue", "old", 2, desiredSet), replicaSet("green", "new", 2, desiredSet))},
	"all are available": {blueGreenCall(replicaSet("blue", "old", 2, 2), replicaSet("green", "new", 2, 2)),
		blueGreenAnswer("green", "Switched", replicaSet("green", "new", 2, desiredSet), replicaSet("blue", "old", 2, desiredSet))},
	"all were available before an edit": {blueGreenCall(replicaSet("blue", "old", 2, 2), staleStatus(replicaSet("green", "new", 2, 2))),
		blueGreenAnswer("blue", "Starting", replicaSet("blue", "old", 2, desiredSet), replicaSet("green", "new", 2, desiredSet))},
	"not scaled up yet": {blueGreenCall(replicaSet("blue", "old", 2, 2), replicaSet("green", "new", 0, 2)),
		blueGreenAnswer("blue", "Starting", replicaSet("blue", "old", 2, desiredSet), replicaSet("green", "new", 2, desiredSet))},
	"no Pod was there before an edit": {blueGreenCall(replicaSet("blue", "old", 2, 2), staleStatus(replicaSet("green", "other", 0, 0))),
		blueGreenAnswer("blue", "Stopping", replicaSet("blue", "old", 2, desiredSet), replicaSet("green", "other", 0, desiredSet))},
	"not scaled down yet": {blueGreenCall(replicaSet("blue", "old", 2, 2), replicaSet("green", "other", 2, 0)),
		blueGreenAnswer("blue", "Stopping", replicaSet("blue", "old", 2, desiredSet), replicaSet("green", "other", 0, desiredSet))},
	"no idle ReplicaSet": {blueGreenCall(replicaSet("blue", "old", 2, 2)),
		blueGreenAnswer("blue", "Starting", replicaSet("blue", "old", 2, desiredSet), replicaSet("green", "new", 2, desiredSet))},
	"an edit in the middle": {blueGreenCall(replicaSet("blue", "old", 2, 2), replicaSet("green", "other", 2, 1)),
		blueGreenAnswer("blue", "Stopping", replicaSet("blue", "old", 2, desiredSet), replicaSet("green", "other", 0, desiredSet))},
	"a reverted edit": {blueGreenCall(replicaSet("blue", "new", 2, 2), replicaSet("green", "other", 2, 1)),
		blueGreenAnswer("blue", "Stable", replicaSet("blue", "new", 2, desiredSet), replicaSet("green", "other", 0, desiredSet))},
}
