// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command planted has a function that nothing calls.
package main

func main() { used() }

func used() {}

func Forgotten() { used() }
