// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"millwright.dev/hack/bench/bareclient"
	"millwright.dev/hack/bench/parents"
)

// The commands by which this program runs itself.
const (
	replayCommand = "replay" // KUBECONFIG RESOURCE NAMESPACE WORKERS RECORDING
	readCommand   = "read"   // KUBECONFIG
	hookCommand   = "hook"   // ADDRESS
)

// runChild is the main function of the bare client, and of the hook.
func runChild(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) < 2 {
		return errors.New("not to be called by hand")
	}
	if args[0] == hookCommand {
		return parents.Serve(ctx, args[1], stdout)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err != nil {
		return err
	}
	if args[0] == readCommand {
		return readAll(ctx, config, stdout)
	}
	workers, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	recording, err := loadRecording(args[5])
	if err != nil {
		return err
	}
	client, err := bareclient.New(config, args[2], args[3], workers, recording)
	if err != nil {
		return err
	}
	return replayPhases(ctx, client, len(recording.Phases), stdin, stdout)
}

// replayPhases goes through a phase for each line of the standard input.
func replayPhases(ctx context.Context, client *bareclient.Client, phases int, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan struct{}, phases)
	go func() {
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			told <- struct{}{}
		}
		cancel() // whoever started us has ended, or does not need us any more
	}()
	fmt.Fprintln(stdout, sayPrepared)
	for phase := range phases {
		select {
		case <-told:
		case <-ctx.Done():
			return nil
		}
		if err := client.Run(ctx, phase); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		fmt.Fprintln(stdout, sayDone)
	}
	<-ctx.Done()
	return nil
}

// readAll says done when everything was read.
func readAll(ctx context.Context, config *rest.Config, stdout io.Writer) error {
	containers, pods, err := bareclient.ReadAll(ctx, config)
	if err != nil {
		return err
	}
	if containers != pods {
		return fmt.Errorf("there are %d ImmortalContainers and %d Pods; each should have one", containers, pods)
	}
	fmt.Fprintln(stdout, sayDone)
	return nil
}
