// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/hack/bench/parents"
)

const (
	childrenPerParent = 100
	// childFilling makes a child about 5 kB: what is desired of it stands in an annotation once more.
	childFilling = 2150
	// ownerlessKeys of ownerlessFilling bytes each make an ownerless object about 2.4 kB.
	ownerlessKeys, ownerlessFilling = 20, 90
	// listPage is how many objects are read at a time.
	listPage = 2000
)

// memoryOutcome is what the operator needs to hold objects, in bytes.
type memoryOutcome struct {
	objects              int
	json                 float64 // of the objects, without managedFields
	heap, empty          float64 // live, with them and without
	resident, emptyStart float64 // of the process
}

// measureMemory measures an operator that is started on objects that are all there, children and others in equal numbers.
func (b *bench) measureMemory(ctx context.Context) error {
	return b.host(ctx, "memory", b.objects/childrenPerParent, func(ctx context.Context, h *hosting) error {
		// What other measurements have left behind is in other namespaces.
		flag := "--namespace=" + h.namespace
		m := &b.measured.hosted.memory
		var err error
		if m.empty, m.emptyStart, err = h.held(ctx, flag, 0); err != nil {
			return err
		}
		b.say("Making %d children and as many ownerless objects", b.objects)
		if err := h.createParents(ctx, 0, h.count, parents.Spec{Children: childrenPerParent, Size: childFilling, Value: aValue}); err != nil {
			return err
		}
		if err := h.startEngine(ctx, nil, flag); err != nil {
			return err
		}
		if _, err := h.awaitParents(ctx, h.count, aValue); err != nil {
			return err
		}
		if err := h.stopEngine(); err != nil {
			return err
		}
		if err := h.createOwnerless(ctx, b.objects); err != nil {
			return err
		}
		if m.json, m.objects, err = h.sizeOfAll(ctx); err != nil {
			return err
		}
		if m.heap, m.resident, err = h.held(ctx, flag, h.count); err != nil {
			return err
		}
		b.say("%d objects of %.1f MiB JSON: live heap %.1f MiB, RSS %.1f MiB; without them %.1f and %.1f", m.objects, m.json/mebi, m.heap/mebi, m.resident/mebi, m.empty/mebi, m.emptyStart/mebi)
		return nil
	})
}

const mebi = 1 << 20

// held starts an operator and tells what it holds once all parents are synced: the resident memory as it is then, and the live heap of
// another one, which collects garbage often.
func (h *hosting) held(ctx context.Context, flag string, parents int) (heap, resident float64, err error) {
	if err := h.startEngine(ctx, nil, flag); err != nil {
		return 0, 0, err
	}
	if err := h.engine.awaitSynced(ctx, parents); err != nil {
		return 0, 0, err
	}
	if err := sleep(ctx, calmPause); err != nil {
		return 0, 0, err
	}
	m, err := h.engine.metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := h.stopEngine(); err != nil {
		return 0, 0, err
	}
	if err := h.startEngine(ctx, []string{heapLimit}, flag); err != nil {
		return 0, 0, err
	}
	if err := h.engine.awaitSynced(ctx, parents); err != nil {
		return 0, 0, err
	}
	if heap, err = h.engine.awaitLiveHeap(ctx); err != nil {
		return 0, 0, err
	}
	return heap, m.resident, h.stopEngine()
}

func (h *hosting) createOwnerless(ctx context.Context, count int) error {
	data := map[string]string{}
	for i := range ownerlessKeys {
		data[fmt.Sprintf("key-%02d", i)] = strings.Repeat("x", ownerlessFilling)
	}
	return inParallel(ctx, count, func(ctx context.Context, i int) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: strayName(i), Labels: map[string]string{"app": "stray"}}, Data: data}
		if _, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating ConfigMap %s/%s: %w", h.namespace, object.Name, err)
		}
		return nil
	})
}

// sizeOfAll ConfigMaps of the namespace, as JSON without managedFields.
func (h *hosting) sizeOfAll(ctx context.Context) (bytes float64, count int, err error) {
	options := metav1.ListOptions{Limit: listPage}
	for {
		list, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace).List(ctx, options)
		if err != nil {
			return 0, 0, fmt.Errorf("listing the ConfigMaps of namespace %s: %w", h.namespace, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			o.APIVersion, o.Kind, o.ManagedFields = "v1", "ConfigMap", nil
			content, err := json.Marshal(o)
			if err != nil {
				return 0, 0, err
			}
			bytes, count = bytes+float64(len(content)), count+1
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return bytes, count, nil
		}
	}
}
