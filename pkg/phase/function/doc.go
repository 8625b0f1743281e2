// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package function has the nine functions that phases of a Blueprint call.
//
//	functions.go                                        all functions by their names, and what they leave behind
//	kubetask.go, multicontainerrun.go, preparedata.go   the plans of the functions that run one Pod; package podrun does the rest
//	kubeexec.go                                         KubeExec and KubeExecAll, by package exec
//	kubeops*.go                                         KubeOps: creates, deletes and patches objects
//	scaleworkload*.go, workload.go                      ScaleWorkload: scales the workload itself, or the scale subresource of its owner
//	mapper.go, discovered.go                            which resources the API server serves, for all functions that take any kind
//	wait*.go                                            Wait and WaitV2
//	pace.go                                             how often phases that wait for other objects are polled
package function
