// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/testing/testcluster"
)

// With these environment variables this test binary, started by itself, is the process that is measured.
const (
	measuredKubeconfig = "OBJECTCACHE_MEASURED_KUBECONFIG"
	measuredCount      = "OBJECTCACHE_MEASURED_COUNT"
)

// measurement is the output of that process, in bytes and seconds.
type measurement struct {
	JSON, Heap, RSS, PeakRSS uint64
	EmptyRSS                 uint64 // of the process before it caches anything
	Seconds                  float64
}

// BenchmarkMemory reports how much heap and RSS a process needs per byte of JSON that it caches, for 20,000 children of 5 kB, and
// for 20,000 ownerless objects of 2.4 kB in 20 namespaces.
func BenchmarkMemory(b *testing.B) {
	const count = 20000
	for name, shape := range map[string]struct {
		size, namespaces int
		owned            bool
	}{
		"owned5kB":       {size: 5000, namespaces: 1, owned: true},
		"ownerless2.4kB": {size: 2400, namespaces: 20},
	} {
		b.Run(name, func(b *testing.B) {
			cluster := testcluster.Start(b)
			fill(b, cluster, count, shape.size, shape.namespaces, shape.owned)
			for b.Loop() {
				m := measure(b, cluster, count)
				b.ReportMetric(float64(m.JSON)/count, "JSON-bytes/object")
				b.ReportMetric(float64(m.Heap)/float64(m.JSON), "heap/JSON")
				b.ReportMetric(float64(m.RSS)/float64(m.JSON), "RSS/JSON")
				b.ReportMetric(float64(m.PeakRSS)/float64(m.JSON), "peakRSS/JSON")
				b.ReportMetric(float64(m.EmptyRSS)/(1<<20), "MiB-RSS-before")
				b.ReportMetric(m.Seconds, "s/sync")
			}
		})
	}
}

// fill creates ConfigMaps of about that size.
func fill(b *testing.B, cluster *testcluster.Cluster, count, size, namespaces int, owned bool) {
	b.Helper()
	client := kube(b, cluster.Config())
	var names []string
	for range namespaces {
		names = append(names, cluster.Namespace(b))
	}
	var workers sync.WaitGroup
	const parallel = 16
	for worker := range parallel {
		workers.Go(func() {
			for i := worker; i < count; i += parallel {
				object := configMap(names[i%namespaces], fmt.Sprintf("object-%d", i), i)
				object.Data["filling"] = strings.Repeat("0123456789", size/10-34)
				if owned {
					controller := true
					uid := types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i/10))
					object.OwnerReferences = []metav1.OwnerReference{
						{APIVersion: "example.com/v1", Kind: "Parent", Name: fmt.Sprint("p", i/10), UID: uid, Controller: &controller},
					}
				}
				if _, err := client.CoreV1().ConfigMaps(object.Namespace).Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// measure starts this binary again as a process that caches the objects of the cluster.
func measure(b *testing.B, cluster *testcluster.Cluster, count int) (m measurement) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), self)
	command.Env = append(os.Environ(), measuredKubeconfig+"="+cluster.Kubeconfig(), fmt.Sprint(measuredCount, "=", count))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		b.Fatalf("%v: %s%s", err, output, stderr.Bytes())
	}
	if err := json.Unmarshal(output, &m); err != nil {
		b.Fatalf("%v: %s", err, output)
	}
	return m
}

// measured is the main function of the process that BenchmarkMemory starts. It caches all ConfigMaps and returns the memory that it uses.
func measured(kubeconfig string) (m measurement, err error) {
	var count int
	if _, err := fmt.Sscan(os.Getenv(measuredCount), &count); err != nil {
		return m, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return m, err
	}
	empty := liveHeap()
	m.EmptyRSS = status("VmRSS")
	began := time.Now()
	objects, err := objectcache.New(context.Background(), config, objectcache.Options{})
	if err != nil {
		return m, err
	}
	handle, err := objects.Acquire(objectcache.Request{Resource: configMaps, OnChange: func(_, _ *objectcache.RawObject) {}})
	if err != nil {
		return m, err
	}
	cache.WaitFor(context.Background(), "the cache", handle.Synced())
	m.Seconds, m.RSS, m.PeakRSS = time.Since(began).Seconds(), status("VmRSS"), status("VmHWM")
	found := 0
	for _, o := range handle.List("", nil) {
		m.JSON += uint64(len(o.JSON()))
		found++
	}
	m.Heap = liveHeap() - empty
	runtime.KeepAlive(handle)
	if found < count {
		return m, fmt.Errorf("got %d objects, want %d", found, count)
	}
	return m, nil
}

// liveHeap returns the size of the heap after a garbage collection, in bytes.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

// status returns a value of /proc/self/status in bytes, or 0 if it does not exist.
func status(key string) uint64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), key+":")
	var kilobytes uint64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}
