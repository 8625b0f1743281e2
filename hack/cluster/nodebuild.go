//go:build node

package main

// contents is what this build has.
const contents = "control plane, node and kubectl"
