package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Prepare installs what is missing for a node, after printing it. The error names what the machine lacks that cannot be installed.
func Prepare(ctx context.Context, out io.Writer) (Facts, error) {
	f := Look(ctx)
	if err := impossible(f); err != nil {
		return f, err
	}
	packages := Packages(f)
	if len(packages) == 0 {
		return f, nil
	}
	fmt.Fprintf(out, "A node needs %s.\nInstalling these packages by apt-get, which takes about half a minute: %s\n",
		strings.Join(Missing(f), ", "), strings.Join(packages, " "))
	if err := install(ctx, packages); err != nil {
		return f, err
	}
	// Some kernel features can only be asked for by what was installed.
	f = Look(ctx)
	if missing := Missing(f); len(missing) > 0 {
		return f, fmt.Errorf("this machine cannot have a node: the packages %s are installed, but these are still missing: %s",
			strings.Join(packages, " "), strings.Join(missing, ", "))
	}
	return f, impossible(f)
}

func impossible(f Facts) error {
	obstacles := Obstacles(f)
	if len(obstacles) == 0 {
		return nil
	}
	return errors.New("this machine cannot have a node: " + strings.Join(obstacles, "; "))
}

// install updates the list of packages first: it may be missing, or name versions that are there no more.
func install(ctx context.Context, packages []string) error {
	for _, args := range [][]string{
		{"update"},
		append([]string{"install", "--yes", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}
