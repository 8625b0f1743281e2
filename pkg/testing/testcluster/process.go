// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"millwright.dev/pkg/testing/portrange"
)

const (
	module = "millwright.dev"
	// startTimeout is above bin/cluster's own limit (3 minutes), because the error of bin/cluster names what it waited for.
	startTimeout = 4 * time.Minute
	// stopTimeout is far above the usual duration of a stop (a second), for busy machines.
	stopTimeout  = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// apiServerPorts are those of API servers, which stop and start again in some tests. The range is not that of faultproxy, nor of NodePorts.
var apiServerPorts = portrange.Range{First: 26000, Limit: 30000}

// process is a running "bin/cluster up". It stops when its standard input ends, and so when this process ends, even by a kill: then only
// its files are left.
type process struct {
	bin     string // the folder of cluster and kubectl
	dir     string // all files of this cluster; stop removes it
	audited bool   // with an audit log
	node    bool   // with a real node
	port    *portrange.Reservation
	command *exec.Cmd
	stdin   io.Closer
	ended   chan struct{} // closed when the command has ended
}

// startProcess starts a cluster and returns when it is ready.
func startProcess(audited, node bool) (*process, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	p := &process{bin: filepath.Join(root, "bin"), audited: audited, node: node, ended: make(chan struct{})}
	if _, err := os.Stat(p.binary("cluster")); err != nil {
		return nil, fmt.Errorf("%s is missing: run `make bin/cluster` first (the first build takes minutes)", p.binary("cluster"))
	}
	if p.dir, err = os.MkdirTemp("", "mw-"); err != nil {
		return nil, err
	}
	if p.port, err = apiServerPorts.Reserve(); err == nil {
		err = p.start(strconv.Itoa(p.port.Port))
	}
	if err != nil {
		return nil, errors.Join(err, p.remove())
	}
	if _, err := p.waitReady(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; it printed:\n%s", err, p.output()), p.stop())
	}
	return p, nil
}

// start starts the command. It takes any free port if this one is taken.
func (p *process) start(port string) error {
	output, err := os.Create(p.outputPath())
	if err != nil {
		return err
	}
	defer output.Close()
	args := []string{"up", "--dir", p.stateDir(), "--port", port, "--simulated-nodes", "1", "--unsafe-no-fsync", "--stop-with-stdin"}
	if p.audited {
		args = append(args, "--audit-log", p.auditLog())
	}
	if p.node {
		args = append(args, "--node")
	}
	p.command = exec.Command(p.binary("cluster"), args...)
	p.command.Stdout, p.command.Stderr = output, output
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return err
	}
	if err := p.command.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait() // ProcessState has the exit status
	}()
	return nil
}

// waitReady waits until the cluster is ready, and returns the URL of its API server. The cluster prints it only afterwards.
func (p *process) waitReady() (url string, err error) {
	timeout := time.After(startTimeout)
	for {
		if content, err := os.ReadFile(filepath.Join(p.stateDir(), "ready")); err == nil {
			return strings.TrimSpace(string(content)), nil
		}
		select {
		case <-p.ended:
			return "", fmt.Errorf("the cluster did not start: %v", p.command.ProcessState)
		case <-timeout:
			return "", fmt.Errorf("the cluster is not ready after %v", startTimeout)
		case <-time.After(pollInterval):
		}
	}
}

// stop stops the cluster, waits until it has ended, and removes its files. It returns an error if the cluster had ended before.
func (p *process) stop() error {
	return errors.Join(p.halt(), p.remove())
}

func (p *process) remove() error {
	if p.port != nil {
		p.port.Release()
	}
	return os.RemoveAll(p.dir)
}

// halt is stop without the removal of the files.
func (p *process) halt() (err error) {
	select {
	case <-p.ended:
		err = fmt.Errorf("the cluster ended by itself: %v; it printed:\n%s", p.command.ProcessState, p.output())
	default:
		_ = p.stdin.Close()
		select {
		case <-p.ended:
		case <-time.After(stopTimeout):
			_ = p.command.Process.Kill()
			<-p.ended
			err = fmt.Errorf("the cluster did not stop within %v and was killed; it printed:\n%s", stopTimeout, p.output())
		}
	}
	return err
}

func (p *process) binary(name string) string { return filepath.Join(p.bin, name) }

func (p *process) stateDir() string { return filepath.Join(p.dir, "state") }

func (p *process) kubeconfig() string { return filepath.Join(p.stateDir(), "admin.kubeconfig") }

func (p *process) auditLog() string { return filepath.Join(p.dir, "audit.log") }

func (p *process) outputPath() string { return filepath.Join(p.dir, "output") }

// output returns the end of what the cluster printed. If the cluster failed, that includes the end of the components' log.
func (p *process) output() []byte {
	const limit = 8 << 10
	content, err := os.ReadFile(p.outputPath())
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(content[max(0, len(content)-limit):])
}

// isRoot reports whether a folder has the go.mod of the main module.
func isRoot(dir string) bool {
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(content, []byte("module "+module+"\n"))
}
