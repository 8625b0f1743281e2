// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// version is set by the linker where a release is built without its repository:
//
//	go build -ldflags "-X main.version=v1.2.3"
var version string

// versionInfo is what `millwright version` prints.
type versionInfo struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// buildVersion is what the linker has set, or else what Go has recorded of the repository: a tag, or a pseudo-version.
func buildVersion() versionInfo {
	info := versionInfo{Version: version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		if info.Version == "" {
			info.Version = build.Main.Version
		}
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				info.Commit = setting.Value
			}
		}
	}
	if info.Version == "" || info.Version == "(devel)" {
		info.Version = "devel"
	}
	return info
}

// String returns it in one line.
func (v versionInfo) String() string {
	return fmt.Sprintf("millwright %s (%s, %s)", v.Version, v.GoVersion, v.Platform)
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := buildVersion()
			var text []byte
			var err error
			switch output {
			case "":
				text = fmt.Appendln(nil, info)
			case "json":
				text, err = json.MarshalIndent(info, "", "  ")
				text = append(text, '\n')
			case "yaml":
				text, err = yaml.Marshal(info)
			default:
				return misused(cmd, "invalid --output %q: must be json or yaml", output)
			}
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "One of json, yaml; empty for a line of text.")
	completeFlag(cmd, "output", "json", "yaml")
	return cmd
}
