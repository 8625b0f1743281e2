package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubectl compares both names of kubectl: an argument, and the name of the binary.
func TestKubectl(t *testing.T) {
	link := filepath.Join(t.TempDir(), "kubectl")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"version", "--client"}, 0, "Client Version: v1."},
		{[]string{"get", "--help"}, 0, "Usage:\n  kubectl get "},
		{[]string{"no-such-command"}, 1, `unknown command "no-such-command" for "kubectl"`},
		{[]string{"__complete", "wai"}, 0, "wait\t"},
		{[]string{"hello", "world"}, 7, "plugin got world\n"},
	} {
		t.Run(tc.args[0], func(t *testing.T) {
			plugins := t.TempDir()
			plugin := "#!/bin/sh\necho plugin got \"$@\"\nexit 7\n"
			if err := os.WriteFile(filepath.Join(plugins, "kubectl-hello"), []byte(plugin), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, cmd := range map[string]*exec.Cmd{
				"argument": exec.Command(binary, append([]string{"kubectl"}, tc.args...)...),
				"symlink":  exec.Command(link, tc.args...),
			} {
				cmd.Env = append(os.Environ(), "PATH="+plugins+":"+os.Getenv("PATH"))
				out, _ := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(string(out), tc.want) {
					t.Errorf("by %s: exit code %d, want %d and output with %q; got:\n%s", name, code, tc.code, tc.want, out)
				}
			}
		})
	}
}
