// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The pace is sampled every paceInterval: that of the processor by hashing paceBytes, which takes about two milliseconds of CPU time, and that of the
// API server by a read of one object.
const (
	paceInterval = 100 * time.Millisecond
	paceBytes    = 2 << 20
	// leastAnswer is what a read may take without being called slow. It is less on an idle machine, but then by a part that means nothing.
	leastAnswer = 10 * time.Millisecond
)

var (
	processorPace pace
	apiServerPace = pace{fastest: leastAnswer, fixed: true}
)

// pace has the durations of a fixed piece of work on this machine since the tests began.
type pace struct {
	lock    sync.Mutex
	samples []paceSample
	fastest time.Duration
	fixed   bool // fastest is given, and not the fastest sample
}

// paceSample is one duration of the piece of work, from the time at which it was due.
type paceSample struct {
	ended time.Time
	took  time.Duration
}

func (p *pace) add(sample paceSample) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.samples = append(p.samples, sample)
	if !p.fixed && (p.fastest == 0 || sample.took < p.fastest) {
		p.fastest = sample.took
	}
}

func (p *pace) slowness(begin time.Time) float64 {
	p.lock.Lock()
	defer p.lock.Unlock()
	return slowness(p.samples, p.fastest, begin)
}

// sample samples the pace until stop is closed. A piece of work that failed is no sample.
func (p *pace) sample(stop <-chan struct{}, work func() error) {
	for due := time.Now(); ; {
		err := work()
		ended := time.Now()
		if err == nil {
			p.add(paceSample{ended, max(ended.Sub(due), 1)})
		}
		due = ended.Add(paceInterval)
		select {
		case <-stop:
			return
		case <-time.After(paceInterval):
		}
	}
}

// hashing returns the piece of work of the processor.
func hashing() func() error {
	content := make([]byte, paceBytes)
	return func() error {
		sha256.Sum256(content)
		return nil
	}
}

// reading returns the piece of work of the API server. It fails before the cluster is started.
func (l *Lazy) reading() func() error {
	var client kubernetes.Interface
	return func() (err error) {
		cluster := l.cluster.Load()
		if cluster == nil {
			return errors.New("the cluster is not started")
		}
		if client == nil {
			if client, err = kubernetes.NewForConfig(cluster.config); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		_, err = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	}
}

// Stretch returns a time limit for an operation that began then and has just ended: the given limit on an idle machine, and in proportion
// more if the machine was busy meanwhile, gave this process only a part of a core, or its API server answered slowly. So a test compares a
// duration with the speed of the same machine at the same time, and not with a clock.
func Stretch(limit time.Duration, begin time.Time) time.Duration {
	return time.Duration(float64(limit) * max(processorPace.slowness(begin), apiServerPace.slowness(begin)))
}

// slowness returns the average duration of the samples since begin, divided by the fastest, at least 1. If there is no sample since begin,
// the last one counts.
func slowness(samples []paceSample, fastest time.Duration, begin time.Time) float64 {
	var sum time.Duration
	count := 0
	for i := len(samples) - 1; i >= 0; i-- {
		if samples[i].ended.Before(begin) && count > 0 {
			break
		}
		sum += samples[i].took
		count++
	}
	if count == 0 || fastest <= 0 {
		return 1
	}
	return max(1, float64(sum)/float64(count)/float64(fastest))
}
