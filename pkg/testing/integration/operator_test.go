// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/patience"
)

// operator is a process for the test's namespace alone. It sends its requests through a proxy of its own, and serves its metrics.
type operator struct {
	*process
	e     *env
	named string
	proxy *faultproxy.Proxy
	args  []string
}

// name returns the name of the process in the journal.
func (o *operator) name() string { return o.named }

// startOperator starts a process of the Deployment core, and the proxy under this name.
func startOperator(e *env, name string, journal *faultproxy.Journal, args ...string) *operator {
	e.Helper()
	return startProcessOf(core, e, name, journal, args...)
}

// startProcessOf starts a process of any Deployment. An engine serves the CompositeControllers of this test only.
func startProcessOf(d deployment, e *env, name string, journal *faultproxy.Journal, args ...string) *operator {
	e.Helper()
	account := d.account(e.T, e.cluster)
	bindInNamespace(e, d, account)
	proxy, kubeconfig := startProxy(e, name, account.Config, journal)
	o := &operator{e: e, named: name, proxy: proxy, args: append([]string{
		"--kubeconfig", kubeconfig, "--serving-address", "127.0.0.1:0",
		"--controllers", strings.Join(d.controllers(e.T), ","), "--namespace", e.namespace,
		"--leader-elect-lease-namespace", e.namespace, "--leader-elect-lease-name", string(d), "--target-label-selector", engineTest + "=" + e.namespace,
	}, args...)}
	o.restart()
	return o
}

// restart starts the process again after it has ended, as a kubelet does.
func (o *operator) restart() {
	o.e.Helper()
	o.process = startProcess(o.e.T, o.args...)
}

// servingAddress matches the line of the log that has the address of the metrics.
var servingAddress = regexp.MustCompile(`Serving /metrics.* address="([^"]+)"`)

// address returns that of the process, "" if it does not serve yet.
func (o *operator) address() string {
	found := servingAddress.FindStringSubmatch(o.log.String())
	if found == nil {
		return ""
	}
	return found[1]
}

// get sends a GET to the process and returns the body, or "" if the request fails or the status is not 200.
func (o *operator) get(path string) string {
	client := &http.Client{Timeout: patience.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + o.address() + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// awaitWarm waits until the process is ready: its caches are filled, and it leads or stands by.
func (o *operator) awaitWarm() {
	o.e.Helper()
	o.e.eventually(func() string {
		o.mustRun()
		if o.get("/readyz") == "" {
			return "the process is not ready"
		}
		return ""
	})
}

// mustRun fails the test if the process has ended.
func (o *operator) mustRun() {
	o.e.Helper()
	select {
	case <-o.ended:
		o.e.Fatalf("the process has ended: %v", o.ProcessState)
	default:
	}
}

func (o *operator) signal(signal syscall.Signal) {
	o.e.Helper()
	if err := o.Process.Signal(signal); err != nil {
		o.e.Fatal(err)
	}
}

// suspend stops the process with SIGSTOP while all of its goroutines wait, most of them for answers: none has decided to write and not yet sent the
// whole request.
func (o *operator) suspend() {
	o.e.Helper()
	o.proxy.Freeze()
	defer o.proxy.Thaw()
	o.e.eventually(func() string {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", o.Process.Pid))
		if err != nil || len(stats) == 0 {
			o.e.Fatalf("threads of %s: got %v, %v, want some", o.name(), stats, err)
		}
		for _, name := range stats {
			stat, err := os.ReadFile(name) // "ID (NAME) STATE ...", see proc(5)
			if err != nil || !strings.Contains(string(stat), ") S ") {
				return fmt.Sprintf("a thread does not wait: %s, %v", stat, err)
			}
		}
		return ""
	})
	o.signal(syscall.SIGSTOP)
}

// terminate stops the process with SIGTERM, and waits until it has ended. A data race shows in its exit code.
func (o *operator) terminate() {
	o.e.Helper()
	o.signal(syscall.SIGTERM)
	if code := o.awaitEnd(o.e.T); code != 0 {
		o.e.Errorf("exit code after SIGTERM: got %d, want 0", code)
	}
	if strings.Contains(o.log.String(), "panic") {
		o.e.Error("the log of the process has a panic")
	}
}

// usage is the resource usage of a process.
type usage struct {
	goroutines int
	memory     int64 // resident, in bytes
}

// String returns the usage for messages.
func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d MiB", u.goroutines, u.memory>>20)
}

// usage returns the current usage of the process.
func (o *operator) usage() usage {
	o.e.Helper()
	var u usage
	metrics := o.get("/metrics")
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			u.goroutines, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", o.Process.Pid))
	if err != nil {
		o.e.Skipf("this system does not show the memory of a process: %v", err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			u.memory = kilobytes << 10
		}
	}
	if u.goroutines == 0 || u.memory == 0 {
		o.e.Fatalf("got usage %s, want both values; metrics:\n%s", u, metrics)
	}
	return u
}
