// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package podwire

import (
	corev1 "k8s.io/api/core/v1"
)

func readStatus(status *corev1.PodStatus, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			status.Phase = corev1.PodPhase(f.bytes)
		case 2:
			return readCondition(add(&status.Conditions), f.bytes)
		case 4:
			status.Reason = f.string()
		case 8:
			return readContainerStatus(add(&status.ContainerStatuses), f.bytes)
		case 10:
			return readContainerStatus(add(&status.InitContainerStatuses), f.bytes)
		}
		return nil
	})
}

func readCondition(condition *corev1.PodCondition, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			condition.Type = corev1.PodConditionType(f.bytes)
		case 2:
			condition.Status = corev1.ConditionStatus(f.bytes)
		case 5:
			condition.Reason = f.string()
		}
		return nil
	})
}

func readContainerStatus(status *corev1.ContainerStatus, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			status.Name = f.string()
		case 2:
			return readState(&status.State, f.bytes)
		case 4:
			status.Ready = f.value != 0
		case 5:
			status.RestartCount = int32(f.value)
		case 9:
			started := f.value != 0
			status.Started = &started
		}
		return nil
	})
}

func readState(state *corev1.ContainerState, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			state.Waiting = &corev1.ContainerStateWaiting{}
			return readWaiting(state.Waiting, f.bytes)
		case 2:
			state.Running = &corev1.ContainerStateRunning{}
		case 3:
			state.Terminated = &corev1.ContainerStateTerminated{}
			return readTerminated(state.Terminated, f.bytes)
		}
		return nil
	})
}

func readWaiting(waiting *corev1.ContainerStateWaiting, message []byte) error {
	return eachField(message, func(f field) error {
		if f.number == 1 {
			waiting.Reason = f.string()
		}
		return nil
	})
}

func readTerminated(terminated *corev1.ContainerStateTerminated, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			terminated.ExitCode = int32(f.value)
		case 2:
			terminated.Signal = int32(f.value)
		case 3:
			terminated.Reason = f.string()
		}
		return nil
	})
}
