// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// Random operations: users and others do to the objects of one kind what comes to their minds, one thing after the other,
// while the kind's controller works, is killed and comes back. Now and then they pause until all is as the objects demand. In
// the end a second process syncs everything, and must not find anything to write.

const (
	// operationCount is how many operations a test does, in so many namespaces at a time.
	operationCount, operationLanes = 500, 2
	// pauseEvery is how many operations are done before it is waited until all is as it should be.
	pauseEvery = 20
	// longestGap is how long it takes at most from one operation to the next: some come while the last is worked on, and
	// some after.
	longestGap = 60 * time.Millisecond
	// fateWeight is the weight of the operation that kills the controller, or starts it again.
	fateWeight = 6
)

// seedVariable is the environment variable that says by which seed to draw the operations, in one namespace only.
const seedVariable = "RANDOM_SEED"

// world is what the operations on one kind are about: the objects of one namespace, and a model of what they demand.
type world interface {
	// operations are what may happen.
	operations() []operation
	// complaint tells what is not as the objects that the users have made demand. It is empty where all is.
	complaint() string
	// addLast creates an object more, of the name lastName, and returns when the controller has done with it. It has no
	// children whose creation is a plain create: in the journal those have no name.
	addLast()
}

// lastName is that of the object by which is seen that all others were synced.
const lastName = "last"

// operation is one kind of thing that happens, as often as its weight says beside those of the others.
type operation struct {
	weight int
	// do it, as the random numbers say, and tell what was done. Whatever comes in between, as that an object has gone, is
	// no failure.
	do func(random *rand.Rand) (told string)
}

// testRandomOperations on the world that newWorld makes of an empty namespace, whose only controller is the one of that name.
func testRandomOperations(t *testing.T, controller string, newWorld func(*env) world) {
	cluster := testcluster.Shared(t)
	seeds, lanes := rand.Uint32(), operationLanes
	if given := os.Getenv(seedVariable); given != "" {
		seed, err := strconv.ParseUint(given, 10, 32)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		seeds, lanes = uint32(seed), 1
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
					e.Logf("what happened:\n%s\nwhat was written:\n%s\nRun the same operations again:\n  %s=%d go test -race ./pkg/testing/integration -count=1 -run '^%s$'",
						strings.Join(run.history, "\n"), run.writes(), seedVariable, seed, test)
				}
			})
			run.do(operationCount / operationLanes)
			run.syncAnew()
		})
	}
}

// randomRun is one namespace's run.
type randomRun struct {
	*env
	controller string
	world      world
	random     *rand.Rand
	history    []string
	journal    faultproxy.Journal

	proxy  *faultproxy.Proxy // nil while the controller is dead
	stop   func()
	ending sync.WaitGroup // of those that were killed
}

// do so many operations, and be where they lead.
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
				r.tell("%s", o.do(r.random))
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
			r.tell("all is as it should be after %s", time.Since(begun).Round(time.Millisecond))
		}
	}
}

// fate kills the controller, or starts it again.
func (r *randomRun) fate(*rand.Rand) string {
	if r.proxy == nil {
		r.start(&r.journal)
		return "the controller starts"
	}
	// From here on nothing of it gets to the API server. What it had sent may or may not have been done.
	r.proxy.Close()
	r.ending.Go(r.stop)
	r.proxy = nil
	return "the controller is killed"
}

// start the controller, behind a proxy that keeps its requests in the journal.
func (r *randomRun) start(journal *faultproxy.Journal) {
	r.Helper()
	proxy, err := faultproxy.Start(r.controller, operatorAccount(r.T, r.cluster).Config, journal)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(proxy.Close)
	kubeconfig := filepath.Join(r.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(kubeconfig); err != nil {
		r.Fatal(err)
	}
	r.proxy = proxy
	r.stop = runManagerWith(r.T, func(options *manager.Options) {
		options.Kubeconfig, options.Namespace, options.Controllers = kubeconfig, r.namespace, []string{r.controller}
	})
}

// syncAnew lets a second process sync all that there is. It finds nothing to write and nothing to say.
func (r *randomRun) syncAnew() {
	r.Helper()
	r.stop() // it ends when all is done that it has begun
	before := r.said()
	var second faultproxy.Journal
	r.start(&second)
	// What a new process finds it syncs before what comes later.
	r.world.addLast()
	r.stop()
	for _, entry := range second.Entries() {
		if entry.IsWrite() && entry.Resource != "events" && entry.Name != lastName {
			r.Errorf("all was as it should be, and a second process writes: %s", entry)
		}
	}
	for name, count := range r.said() {
		if name != lastName && count != before[name] {
			r.Errorf("all was as it should be, and a second process says something of %s", name)
		}
	}
}

// said is how many events there were of each object of our kinds.
func (r *randomRun) said() map[string]int {
	r.Helper()
	list, err := r.kube.CoreV1().Events(r.namespace).List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	said := map[string]int{}
	for _, event := range list.Items {
		if event.Source.Component == r.controller {
			said[event.InvolvedObject.Name] += int(max(event.Count, 1))
		}
	}
	return said
}

// tell adds a line to the history.
func (r *randomRun) tell(format string, args ...any) {
	r.history = append(r.history, time.Now().Format("15:04:05.000")+" "+fmt.Sprintf(format, args...))
}

// writes of the controller, one a line.
func (r *randomRun) writes() string {
	var lines []string
	for _, entry := range r.journal.Select(func(entry faultproxy.Entry) bool { return entry.IsWrite() }) {
		lines = append(lines, entry.String())
	}
	return strings.Join(lines, "\n")
}
