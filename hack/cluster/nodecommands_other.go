//go:build !linux

package main

import "github.com/spf13/cobra"

func newNodeCommands() []*cobra.Command { return nil }
