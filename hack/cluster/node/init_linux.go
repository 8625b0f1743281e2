package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"millwright.dev/hack/cluster/cgroups"
)

const (
	// grace is how long containers have at the stop of the node to end by themselves, and each component.
	grace = 2 * time.Second
	// pollInterval is how often something is checked that has no notification.
	pollInterval = 20 * time.Millisecond
)

// executable is this program, also when its file has been replaced since.
const executable = "/proc/self/exe"

var errSignal = errors.New("ended by a signal")

// Init is the node's first process. It returns after standard input has ended, or with an error when it gets SIGTERM or a
// component cannot be kept running; then all other processes of the node have ended, and their cgroups are gone.
func (n Node) Init() error {
	lock, err := n.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	// Kept until the end: a second signal must not cut the stop short.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	go func() {
		<-signals
		cancel(errSignal)
	}()
	stdin := os.Stdin
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel(nil)
	}()

	r := newReaper()
	err = n.runComponents(ctx, cancel, r)
	r.endAll()
	return errors.Join(err, cgroups.Remove(n.cgroup()))
}

// runComponents keeps the components running until the context ends, and then ends them and all containers.
func (n Node) runComponents(ctx context.Context, cancel context.CancelCauseFunc, r *reaper) error {
	if err := mountPrivately(n.dir.Path(), n.dir.Node()); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(Name)); err != nil {
		return fmt.Errorf("setting the host name of the node: %w", err)
	}
	path, err := exec.LookPath(containerd)
	if err != nil {
		return err
	}
	k := keeper{reaper: r, logOf: n.dir.LogOf, giveUp: cancel}

	// containerd outlives the others, which would take its end for a failure.
	containerdCtx, stopContainerd := context.WithCancel(context.WithoutCancel(ctx))
	var first, others sync.WaitGroup
	defer func() {
		others.Wait()
		endContainers(n.cgroup())
		stopContainerd()
		first.Wait()
	}()
	first.Go(func() { k.keep(containerdCtx, containerd, path, "--config", inRoot(containerdConfig)) })
	if waitForSocket(ctx, inRoot(ContainerdSocket)) == nil {
		others.Go(func() { k.keep(ctx, kubeProxy, executable, kubeProxy, "--config="+inRoot(kubeProxyConfig)) })
		others.Go(func() {
			k.keep(ctx, kubelet, executable, kubelet,
				"--config="+inRoot(kubeletConfig),
				"--kubeconfig="+inRoot(KubeletKubeconfig),
				"--root-dir="+inRoot("kubelet"),
				"--hostname-override="+Name,
				"--node-ip="+Address,
				"--node-labels="+TypeLabel+"="+Type)
		})
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// waitForSocket waits until a process listens on the socket.
func waitForSocket(ctx context.Context, path string) error {
	var dialer net.Dialer
	for {
		connection, err := dialer.DialContext(ctx, "unix", path)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// endContainers asks all processes of containers to end, each once, and waits for that for the time of grace.
func endContainers(cgroup string) {
	asked := map[int]bool{}
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(pollInterval) {
		processes, err := cgroups.Processes(cgroup)
		if err != nil || len(processes) == 0 {
			return
		}
		for _, pid := range processes {
			if !asked[pid] {
				asked[pid] = true
				_ = unix.Kill(pid, unix.SIGTERM)
			}
		}
	}
}
