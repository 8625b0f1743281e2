package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"millwright.dev/hack/cluster/ports"
	"millwright.dev/hack/cluster/statedir"
	"millwright.dev/hack/cluster/supervise"
)

const (
	// defaultPort is the API server's, when it is free.
	defaultPort = 26443
	// startTimeout bounds the start. It takes seconds, but a machine that compiles at the same time may need a minute.
	startTimeout = 3 * time.Minute
	// stopTimeout bounds the stop. What has not ended by then is killed, which etcd survives.
	stopTimeout = 5 * time.Second
	// nodeStopTimeout is added to it with a node, whose containers are given time to end.
	nodeStopTimeout = 12 * time.Second
)

// nodePart is the name of the real node among the parts of the control plane.
const nodePart = "node"

var (
	errStopRequested = errors.New("asked to stop")
	errStartTimeout  = fmt.Errorf("not ready after %v", startTimeout)
)

// upOptions are the flags of "cluster up".
type upOptions struct {
	dir            string
	port           int
	simulatedNodes int
	node           bool
	unsafeNoFsync  bool
	stopWithStdin  bool
	auditLog       string
	verbosity      int
}

func newUpCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up --dir DIR",
		Short: "Run a control plane until it is stopped",
		Long: `Run a control plane in the foreground until it gets SIGINT or SIGTERM.

All state is kept in DIR: started again with the same DIR, the cluster is as it was. DIR/admin.kubeconfig is for
its users; DIR/ready exists while the cluster is ready; DIR/log/cluster.log is the log of all components.

With --node it has a real node, in a network of its own, on which Pods run: see README.md.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Root()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "directory with all state of the cluster; created if missing")
	flags.IntVar(&o.port, "port", defaultPort, "port of the API server on 127.0.0.1; if it is taken, or 0, any free port")
	flags.IntVar(&o.simulatedNodes, "simulated-nodes", 0, "number of nodes on which Pods run without containers")
	flags.BoolVar(&o.node, "node", false, "add a real node, on which Pods run (on Linux, as root)")
	flags.BoolVar(&o.unsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk: a crash of the machine may destroy the state")
	flags.BoolVar(&o.stopWithStdin, "stop-with-stdin", false, "stop when standard input ends, and so when the process at its other end does")
	flags.StringVar(&o.auditLog, "audit-log", "", "file to which the API server appends every request: the user, the request and the answer")
	flags.IntVarP(&o.verbosity, "verbosity", "v", 0, "level of detail of the log, as in -v of the components")
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		panic(err)
	}
	return cmd
}

// run runs the cluster until it is asked to stop (nil) or a component ends by itself.
// Messages go to the outputs of the command, which are separate from those of the components.
func (o *upOptions) run(cmd *cobra.Command) error {
	auditLog, err := o.auditLogPath()
	if err != nil {
		return err
	}
	listener, err := o.listen(cmd.OutOrStdout())
	if err != nil {
		return err
	}
	defer listener.Close()
	begin := time.Now()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	o.stopOnRequest(cancel)

	dir, lock, err := claim(o.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	log, err := dir.OpenLog()
	if err != nil {
		return err
	}
	defer log.Close()
	out, errOut, err := divertOutput(log)
	if err != nil {
		return err
	}
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	gaveUp := func(reason error) (exitCode int) {
		_ = dir.ClearReady()
		switch {
		case errors.Is(context.Cause(ctx), errStopRequested):
			fmt.Fprintln(out, "Stopped while it was starting. The state is kept.")
			return 0
		case isFull(dir.Path(), reason):
			cmd.PrintErrf("cluster: %v\n", errFull(dir.Path()))
		default:
			cmd.PrintErrf("cluster: a component gave up%s\n", endOfLog(dir))
		}
		return 1
	}
	if err := configureLogging(o.verbosity, gaveUp); err != nil {
		return err
	}

	fmt.Fprintf(out, "Starting Kubernetes %s in %s\n", componentversion.Get().GitVersion, dir.Path())
	if port := ports.Of(listener); o.port != 0 && port != o.port {
		fmt.Fprintf(out, "Port %d is taken: using %d.\n", o.port, port)
	}
	c := &controlPlane{
		dir:            dir,
		listener:       listener,
		url:            "https://" + listener.Addr().String(),
		simulatedNodes: o.simulatedNodes,
		withNode:       o.node,
		unsafeNoFsync:  o.unsafeNoFsync,
		auditLog:       auditLog,
		etcdLogger:     etcdLogger(gaveUp),
		parts:          supervise.New(cancel),
	}
	wasReady := false
	err = c.serve(ctx, func() {
		wasReady = true
		fmt.Fprintf(out, "Ready after %.1f s at %s. Stop it with Ctrl-C.\n  export KUBECONFIG=%q\n", time.Since(begin).Seconds(), c.url, dir.AdminKubeconfig())
	})

	if errors.Is(err, errStopRequested) && !wasReady {
		if hanging := c.stopNode(); hanging != nil {
			cmd.PrintErrf("cluster: cut off: %v\n", hanging)
		}
		// Components that are asked to end while they start panic. So the process exits while they work, which etcd survives: a return
		// would close what they use.
		os.Exit(gaveUp(nil))
	}
	begin = time.Now()
	hanging := c.stop()
	if isFull(dir.Path(), err) {
		return errFull(dir.Path())
	}
	if !errors.Is(err, errStopRequested) {
		return fmt.Errorf("%w%s", err, endOfLog(dir))
	}
	if hanging != nil {
		cmd.PrintErrf("cluster: cut off: %v\n", hanging)
	}
	fmt.Fprintf(out, "Stopped after %.1f s. The state is kept.\n", time.Since(begin).Seconds())
	return nil
}

// auditLogPath is absolute: claim changes the working directory.
func (o *upOptions) auditLogPath() (string, error) {
	if o.auditLog == "" {
		return "", nil
	}
	path, err := filepath.Abs(o.auditLog)
	if err != nil {
		return "", fmt.Errorf("audit log %q: %w", o.auditLog, err)
	}
	return path, nil
}

// listen opens the listener of the API server. With a node it goes through the machine's preparation and into a network of its own.
func (o *upOptions) listen(out io.Writer) (*net.TCPListener, error) {
	if o.node {
		return enterNodeNetwork(context.Background(), out, o.port)
	}
	return ports.Listen(o.port)
}

// claim takes the state directory for this process: no other process uses it as long as the lock is open.
func claim(path string) (statedir.Dir, *os.File, error) {
	dir, err := statedir.At(path)
	if err != nil {
		return dir, nil, err
	}
	if err := mustHaveRoom(dir); err != nil {
		return dir, nil, err
	}
	if err := dir.Create(); err != nil {
		return dir, nil, err
	}
	lock, err := dir.Lock()
	if err != nil {
		return dir, nil, err
	}
	// The file may be that of a process that was killed.
	if err := dir.ClearReady(); err != nil {
		return dir, nil, errors.Join(err, lock.Close())
	}
	// The name of etcd's socket is relative; see statedir.Dir.EtcdSocket.
	if err := os.Chdir(dir.Path()); err != nil {
		return dir, nil, errors.Join(fmt.Errorf("entering the state directory: %w", err), lock.Close())
	}
	return dir, lock, nil
}

// serve starts the cluster, calls ready when it is ready, and returns why the context has ended.
func (c *controlPlane) serve(ctx context.Context, ready func()) error {
	startCtx, cancel := context.WithTimeoutCause(ctx, startTimeout, errStartTimeout)
	err := c.start(startCtx)
	cancel()
	if err != nil {
		return err
	}
	if err := c.dir.SetReady(c.url); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	return context.Cause(ctx)
}

// stop stops what serve has started. The error names what could not be stopped in time.
func (c *controlPlane) stop() error {
	timeout := stopTimeout
	if c.withNode {
		timeout += nodeStopTimeout
	}
	return errors.Join(c.dir.ClearReady(), c.parts.Stop(timeout))
}

// stopNode stops the real node alone, if there is one: its containers are processes of the machine.
func (c *controlPlane) stopNode() error { return c.parts.StopOnly(nodePart, nodeStopTimeout) }

// stopOnRequest cancels when a signal comes, or, with --stop-with-stdin, when standard input ends. A second signal ends the
// process immediately.
func (o *upOptions) stopOnRequest(cancel context.CancelCauseFunc) {
	// The reader of our output may have ended: that must not end this process in the middle of the stop.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(errStopRequested)
		<-signals
		os.Exit(130)
	}()
	if o.stopWithStdin {
		stdin := os.Stdin
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel(errStopRequested)
		}()
	}
}
