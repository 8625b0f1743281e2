package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"millwright.dev/hack/cluster/statedir"
)

// appearance is how long "cluster wait" waits for a process to run the cluster at all: it may just have been started.
const appearance = 3 * time.Second

func newWaitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := dirCommand("wait --dir DIR", "Wait until the cluster in a directory is ready, and print its URL", func(cmd *cobra.Command, dir statedir.Dir, _ []string) error {
		url, err := waitReady(cmd.Context(), dir, timeout)
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), url)
		return nil
	})
	cmd.Flags().DurationVar(&timeout, "timeout", startTimeout, "how long to wait")
	return cmd
}

// waitReady waits until the cluster in the directory is ready. It gives up early when no process runs it.
func waitReady(ctx context.Context, dir statedir.Dir, timeout time.Duration) (url string, err error) {
	begin, seen := time.Now(), false
	err = wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(context.Context) (bool, error) {
		pid, err := dir.Holder()
		if err != nil {
			return false, err
		}
		if pid == 0 {
			if seen || time.Since(begin) > appearance {
				return false, fmt.Errorf("no cluster runs in %s%s", dir.Path(), endOfLog(dir))
			}
			return false, nil
		}
		seen = true
		var ready bool
		url, ready = dir.Ready()
		return ready, nil
	})
	if wait.Interrupted(err) {
		return "", fmt.Errorf("the cluster in %s is not ready after %v%s", dir.Path(), timeout, endOfLog(dir))
	}
	return url, err
}

// endOfLog returns the end of the log for an error message, or "" if there is no log.
func endOfLog(dir statedir.Dir) string {
	lines := dir.LastLogLines(10)
	if lines == "" {
		return ""
	}
	return fmt.Sprintf("\nThe end of %s:\n%s", dir.Log(), lines)
}
