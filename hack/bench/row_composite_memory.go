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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

const (
	childrenPerParent = 100
	// childFilling makes a child about 5 kB: what is desired of it is in an annotation too.
	childFilling = 2150
	// strayKeys with strayFilling bytes each make another object about 2.4 kB.
	strayKeys, strayFilling = 20, 90
)

var compositeMemory = scenario{
	name: "composite-memory", about: "memory of an operator that is started on children and as many other objects, over their JSON",
	size: 20000, quickSize: 1000, once: true,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, composite(""), measureMemory) },
}

func measureMemory(ctx context.Context, h *hosting) error {
	emptyHeap, emptyResident, err := h.held(ctx, 0)
	if err != nil {
		return err
	}
	parents := h.size / childrenPerParent
	if err := h.converge(ctx, 0, parents, parentSpec{Children: childrenPerParent, Size: childFilling, Value: aValue}); err != nil {
		return err
	}
	if err := h.peak(ctx); err != nil {
		return err
	}
	if err := h.stopEngine(); err != nil {
		return err
	}
	data := map[string]string{}
	for i := range strayKeys {
		data[fmt.Sprintf("key-%02d", i)] = strings.Repeat("x", strayFilling)
	}
	if err := h.createConfigMaps(ctx, h.size, data, nil); err != nil {
		return err
	}
	number, size, err := h.sizeOfConfigMaps(ctx)
	if err != nil {
		return err
	}
	heap, rss, err := h.held(ctx, parents)
	if err != nil {
		return err
	}
	h.add(row{Name: fmt.Sprintf("live heap for %d objects, over their JSON", number), Unit: times, Goal: 1.2, Most: 1.5}, (heap-emptyHeap)/size,
		"%.1f MiB JSON; %.1f MiB, without objects %.1f MiB", size/mebi, heap/mebi, emptyHeap/mebi)
	h.add(row{Name: fmt.Sprintf("memory of the process for %d objects, over their JSON", number), Unit: times, Goal: 1.6, Most: 2.5}, rss/size,
		"%.1f MiB, without objects %.1f MiB", rss/mebi, emptyResident/mebi)
	return nil
}

// peak adds the row about the operator that has just created the children.
func (h *hosting) peak(ctx context.Context) error {
	status, err := h.engine.status()
	if err != nil {
		return err
	}
	number, size, err := h.sizeOfConfigMaps(ctx)
	if err != nil {
		return err
	}
	h.add(row{Name: fmt.Sprintf("most memory while %d children are created, over their JSON", number), Unit: times, Goal: 1.6, Most: 2.5}, status["VmHWM"]/size,
		"%.1f MiB, then %.1f MiB of which %.1f MiB are no pages of files; %.1f MiB JSON", status["VmHWM"]/mebi, status["VmRSS"]/mebi, status["RssAnon"]/mebi, size/mebi)
	return nil
}

// held returns what operators hold when they have synced that number of parents, in bytes: the resident memory of one, and the live heap of
// another one, which collects garbage often.
func (h *hosting) held(ctx context.Context, parents int) (heap, rss float64, err error) {
	for _, env := range [][]string{nil, {frequentCollections}} {
		if err := h.startEngine(ctx, env); err != nil {
			return 0, 0, err
		}
		if err := h.engine.awaitAnswers(ctx, parents); err != nil {
			return 0, 0, err
		}
		if env != nil {
			if heap, err = h.engine.awaitLiveHeap(ctx); err != nil {
				return 0, 0, err
			}
		} else {
			if err := sleep(ctx, calmPause); err != nil {
				return 0, 0, err
			}
			m, err := h.engine.metrics(ctx)
			if err != nil {
				return 0, 0, err
			}
			rss = m[resident]
		}
		if err := h.stopEngine(); err != nil {
			return 0, 0, err
		}
	}
	return heap, rss, nil
}

// sizeOfConfigMaps returns the number of ConfigMaps of the namespace, and the bytes of their JSON without managedFields.
func (h *hosting) sizeOfConfigMaps(ctx context.Context) (number int, bytes float64, err error) {
	configMaps := h.kubeClient.CoreV1().ConfigMaps(h.namespace.name)
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return configMaps.List(ctx, options)
	})
	err = list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		o := object.(*corev1.ConfigMap)
		o.APIVersion, o.Kind, o.ManagedFields = "v1", "ConfigMap", nil
		content, err := json.Marshal(o)
		number, bytes = number+1, bytes+float64(len(content))
		return err
	})
	return number, bytes, err
}
