// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// Random operations: users and other clients change the objects of one kind at random, one after the other, while the kind's controller
// runs, is killed and is started again. After some operations they wait until all is as the objects demand. In the end a second process
// syncs everything, and must not write anything.

const (
	// operationCount is the number of operations of a test, and operationLanes that of namespaces in which they are done concurrently.
	operationCount, operationLanes = 500, 2
	// pauseEvery is the number of operations after which the test waits until all is as the objects demand.
	pauseEvery = 20
	// longestGap is the longest time between two operations: some are done while the controller handles the last one, and some after.
	longestGap = 60 * time.Millisecond
	// fateWeight is the weight of the operation that kills the controller, or starts it again.
	fateWeight = 6
)

// seedVariable is the environment variable with the seed of the operations, which are then done in one namespace only.
const seedVariable = "RANDOM_SEED"

// firstSeed returns the seed of the environment variable, or a random one if it is not given.
func firstSeed(t *testing.T) (seed uint32, given bool) {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint32(), false
	}
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", seedVariable, err)
	}
	return uint32(number), true
}

// world is the objects of one kind in one namespace, and a model of what they demand.
type world interface {
	// operations returns the operations on the kind.
	operations() []operation
	// complaint returns what is not as the objects of the users demand. It is empty if all is.
	complaint() string
	// addLast creates one more object of the name lastName, and waits until the controller has handled it. It must have no children that are
	// created without server-side apply, because these have no name in the journal.
	addLast()
}

// lastName is the name of the last object: when it is handled, all others have been synced.
const lastName = "last"

// operation is one kind of operation. Its frequency is its weight, relative to those of the others.
type operation struct {
	weight int
	// do does the operation with these random numbers, and returns a line for the history. A concurrent change, such as that the object was
	// deleted, is no failure.
	do func(random *rand.Rand) (done string)
}

// testRandomOperations does random operations in the world that newWorld returns for an empty namespace. Only the controller of that name
// runs there.
func testRandomOperations(t *testing.T, controller string, newWorld func(*env) world) {
	cluster := testcluster.Shared(t)
	seeds, given := firstSeed(t)
	lanes := operationLanes
	if given {
		lanes = 1
	}
	for lane := range lanes {
		seed := seeds + uint32(lane)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, cluster)
			run := &randomRun{env: e, controller: controller, world: newWorld(e), random: rand.New(rand.NewPCG(uint64(seed), 0))}
			test, _, _ := strings.Cut(t.Name(), "/")
			e.Cleanup(func() {
				if e.Failed() {
					e.Logf("operations:\n%s\nwrites of the controller:\n%s\nRun the same operations again:\n  %s=%d go test -race ./pkg/testing/integration -count=1 -run '^%s$'",
						strings.Join(run.history, "\n"), run.writes(), seedVariable, seed, test)
				}
			})
			run.do(operationCount / operationLanes)
			run.syncAgain()
		})
	}
}

// randomRun is the run in one namespace.
type randomRun struct {
	*env
	controller string
	world      world
	random     *rand.Rand
	history    []string
	journal    faultproxy.Journal

	proxy  *faultproxy.Proxy // nil while no controller runs
	stop   func()
	ending sync.WaitGroup // waits for controllers that were killed
}

// do does count operations, and waits until all is as the objects demand.
func (r *randomRun) do(count int) {
	r.Helper()
	operations := append(r.world.operations(), operation{fateWeight, r.fate})
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	r.start(&r.journal)
	r.Cleanup(r.ending.Wait)
	for i := range count {
		draw := r.random.IntN(total)
		for _, o := range operations {
			if draw -= o.weight; draw < 0 {
				r.record("%s", o.do(r.random))
				break
			}
		}
		<-time.After(time.Duration(r.random.Int64N(int64(longestGap))))
		if (i+1)%pauseEvery == 0 || i == count-1 {
			if r.proxy == nil {
				r.start(&r.journal)
			}
			begun := time.Now()
			r.eventually(r.world.complaint)
			r.record("converged after %s", time.Since(begun).Round(time.Millisecond))
		}
	}
}

// fate kills the controller, or starts it again.
func (r *randomRun) fate(*rand.Rand) string {
	if r.proxy == nil {
		r.start(&r.journal)
		return "the controller starts"
	}
	// From now on no request of it reaches the API server. Requests that it has sent may or may not take effect.
	r.proxy.Close()
	r.ending.Go(r.stop)
	r.proxy = nil
	return "the controller is killed"
}

// start starts the controller behind a proxy. The journal records its requests.
func (r *randomRun) start(journal *faultproxy.Journal) {
	r.Helper()
	proxy, kubeconfig := startProxy(r, r.controller, operatorAccount(r.T, r.cluster).Config, journal)
	r.proxy = proxy
	r.stop = runManagerWith(r.T, func(options *manager.Options) {
		options.Kubeconfig, options.Namespace, options.Controllers = kubeconfig, r.namespace, []string{r.controller}
	})
}

// syncAgain lets a second process sync all objects. It must write nothing and record no events.
func (r *randomRun) syncAgain() {
	r.Helper()
	r.stop() // returns after all syncs that have begun
	before := r.eventCounts()
	var second faultproxy.Journal
	r.start(&second)
	// A new process syncs existing objects before new ones.
	r.world.addLast()
	r.stop()
	for _, entry := range second.Entries() {
		if entry.IsWrite() && entry.Resource != "events" && entry.Name != lastName {
			r.Errorf("second process: got %s, want no write", entry)
		}
	}
	for name, count := range r.eventCounts() {
		if name != lastName && count != before[name] {
			r.Errorf("second process: got an event on %s, want none", name)
		}
	}
}

// eventCounts returns how many events the controller has recorded on each object.
func (r *randomRun) eventCounts() map[string]int {
	r.Helper()
	list, err := r.kube.CoreV1().Events(r.namespace).List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	counts := map[string]int{}
	for _, event := range list.Items {
		if event.Source.Component == r.controller {
			counts[event.InvolvedObject.Name] += int(max(event.Count, 1))
		}
	}
	return counts
}

// record adds a line to the history.
func (r *randomRun) record(format string, args ...any) {
	r.history = append(r.history, time.Now().Format("15:04:05.000")+" "+fmt.Sprintf(format, args...))
}

// writes returns the writes of the controller, one a line.
func (r *randomRun) writes() string {
	var lines []string
	for _, entry := range r.journal.Select(func(entry faultproxy.Entry) bool { return entry.IsWrite() }) {
		lines = append(lines, entry.String())
	}
	return strings.Join(lines, "\n")
}

// outcome returns a line for the history. It is no failure if the object does not exist any more, or exists already.
func (e *env) outcome(what string, err error) string {
	e.Helper()
	switch {
	case err == nil:
		return what
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return what + ": " + string(apierrors.ReasonForError(err))
	}
	e.Fatalf("%s: %v", what, err)
	return ""
}
