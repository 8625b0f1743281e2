// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command leash runs a command that does not outlive the process that started it:
//
//	leash [-grace DURATION] [-pid-file FILE] COMMAND [ARGUMENT...]
//
// The command is stopped (SIGTERM) when the standard input of leash ends, which happens when the process at its other end ends,
// even by kill -9; and when leash itself gets SIGTERM or SIGINT. If it has not ended after the grace period, it is killed.
// leash exits with the command's exit status.
//
// leash and the command are a process group of their own. So a terminal's Ctrl-C does not reach them, and a script that starts
// several commands decides itself in which order they stop.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	grace := flag.Duration("grace", 20*time.Second, "how long the command may take to end after SIGTERM, before it is killed")
	pidFile := flag.String("pid-file", "", "file for the process id of the command")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: leash [-grace DURATION] [-pid-file FILE] COMMAND [ARGUMENT...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	status, err := run(flag.Args(), *pidFile, *grace)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leash:", err)
	}
	os.Exit(status)
}

// run runs the command and returns its exit status.
func run(args []string, pidFile string, grace time.Duration) (status int, err error) {
	// It fails only for the leader of a session, whose group is its own already.
	_ = syscall.Setpgid(0, 0)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	released := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(released)
	}()

	command := exec.Command(args[0], args[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return 127, err
	}
	if pidFile != "" {
		if err := writePID(pidFile, command.Process.Pid); err != nil {
			fmt.Fprintln(os.Stderr, "leash:", err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()

	select {
	case err := <-ended:
		return exitStatus(command, err)
	case <-stop:
	case <-released:
	}
	// An error means that it has just ended by itself.
	_ = command.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		return exitStatus(command, err)
	case <-time.After(grace):
		fmt.Fprintf(os.Stderr, "leash: %s has not ended %v after SIGTERM: killing it\n", args[0], grace)
		_ = command.Process.Kill()
		return exitStatus(command, <-ended)
	}
}

// exitStatus returns the status that a shell would report for a command that has ended.
func exitStatus(command *exec.Cmd, err error) (int, error) {
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	if wait, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		return 128 + int(wait.Signal()), nil
	}
	return command.ProcessState.ExitCode(), nil
}

// writePID writes the process id into the file in one step, so that a reader sees the former one or this one.
func writePID(file string, pid int) error {
	if err := os.WriteFile(file+".new", fmt.Appendln(nil, pid), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
