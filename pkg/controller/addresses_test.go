// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWithoutPorts(t *testing.T) {
	for text, want := range map[string]string{
		"read tcp 127.0.0.1:43210->127.0.0.1:8080: read: connection reset by peer":                     "read tcp 127.0.0.1:8080: read: connection reset by peer",
		"write tcp [::1]:43210->[::1]:8080: broken pipe; read tcp 10.0.0.1:1->[fe80::1%eth0]:443: EOF": "write tcp [::1]:8080: broken pipe; read tcp [fe80::1%eth0]:443: EOF",
		`Post "http://hook:80/": read udp 10.1.2.3:55555->10.96.0.10:53: i/o timeout`:                  `Post "http://hook:80/": read udp 10.96.0.10:53: i/o timeout`,
		"dial tcp 10.0.0.1:8080: connect: connection refused":                                          "dial tcp 10.0.0.1:8080: connect: connection refused",
		"http2: server sent GOAWAY and closed the connection; LastStreamID=17, ErrCode=NO_ERROR":       "http2: server sent GOAWAY and closed the connection; LastStreamID, ErrCode=NO_ERROR",
		"spec.ports: 80->8080 is a text of a user":                                                     "spec.ports: 80->8080 is a text of a user",
	} {
		if got := WithoutPorts(text); got != want {
			t.Errorf("of %q is shown %q, want %q", text, got, want)
		}
	}
}

func TestConditionWithoutPorts(t *testing.T) {
	var conditions []metav1.Condition
	reset := func(port int) string {
		loopback := net.IPv4(127, 0, 0, 1)
		from, to := &net.TCPAddr{IP: loopback, Port: port}, &net.TCPAddr{IP: loopback, Port: 8080}
		return (&net.OpError{Op: "read", Net: "tcp", Source: from, Addr: to, Err: net.ErrClosed}).Error()
	}
	SetCondition(&conditions, time.Now(), 1, "Ready", metav1.ConditionFalse, "HookUnreachable", reset(43210))
	before := conditions[0]
	SetCondition(&conditions, time.Now(), 1, "Ready", metav1.ConditionFalse, "HookUnreachable", reset(43211))
	if conditions[0] != before {
		t.Errorf("it was %+v, and is %+v", before, conditions[0])
	}
}
