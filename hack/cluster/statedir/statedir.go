// Package statedir knows the directory that holds everything of one cluster: what lies where, who uses it, and whether the
// cluster in it is ready.
//
//	admin.kubeconfig   for users: full rights
//	ready              for processes that wait for the cluster: exists while it is ready, contains the API server's URL
//	lock               locked as long as a process runs the cluster
//	log/cluster.log    the log of all components; cluster.log.1 is that of the previous run
//	audit-policy.yaml  what an audit log has; written at every start with an audit log
//	pki/               authorities and keys, kept; certificates and the components' kubeconfigs, written at every start
//	etcd/              etcd's data and its socket
//	node/              of the real node, if there is one: images, containers, volumes, logs of Pods, configuration
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Dir is a state directory.
type Dir struct {
	root string
}

// At returns the state directory at path, which need not exist.
func At(path string) (Dir, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, fmt.Errorf("state directory %q: %w", path, err)
	}
	return Dir{root: root}, nil
}

// Create makes the directory and its folders where they are missing. Only the user may enter: it holds keys.
func (d Dir) Create() error {
	for _, path := range []string{d.root, d.PKI(), filepath.Dir(d.Log()), d.etcd()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("making the state directory: %w", err)
		}
	}
	return nil
}

// Path is the absolute path of the directory itself.
func (d Dir) Path() string { return d.root }

// AdminKubeconfig is the kubeconfig for users, with full rights.
func (d Dir) AdminKubeconfig() string { return filepath.Join(d.root, "admin.kubeconfig") }

// AuditPolicy is the file that sets what the audit log has, if there is one.
func (d Dir) AuditPolicy() string { return filepath.Join(d.root, "audit-policy.yaml") }

// PKI is the folder of certificates, keys and the components' kubeconfigs.
func (d Dir) PKI() string { return filepath.Join(d.root, "pki") }

// Log is the file that all components log to.
func (d Dir) Log() string { return d.LogOf("cluster") }

// Node is the folder of the real node.
func (d Dir) Node() string { return filepath.Join(d.root, "node") }

// EtcdData is where etcd keeps its data.
func (d Dir) EtcdData() string { return filepath.Join(d.etcd(), "data") }

// EtcdSocket is the socket that etcd listens on, relative to Path: a socket's name is limited to some 100 characters, which an
// absolute path easily exceeds.
func (d Dir) EtcdSocket() string { return "etcd/socket" }

func (d Dir) etcd() string { return filepath.Join(d.root, "etcd") }

func (d Dir) ready() string { return filepath.Join(d.root, "ready") }

func (d Dir) lock() string { return filepath.Join(d.root, "lock") }

// LogOf is the file that a component logs to that runs as a process of its own.
func (d Dir) LogOf(component string) string { return filepath.Join(d.root, "log", component+".log") }

// KeepLog renames the log of the previous run.
func KeepLog(path string) error {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keeping the log of the previous run: %w", err)
	}
	return nil
}

// OpenLog starts a new log and keeps that of the previous run under another name.
func (d Dir) OpenLog() (*os.File, error) {
	if err := KeepLog(d.Log()); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(d.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return file, nil
}

// LastLogLines returns up to n lines from the end of the log, or nothing when there is none.
func (d Dir) LastLogLines(n int) string {
	content, err := os.ReadFile(d.Log())
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// SetReady writes the file that shows that the cluster is ready. It appears with its content or not at all.
func (d Dir) SetReady(url string) error {
	if err := WriteFile(d.ready(), []byte(url+"\n")); err != nil {
		return fmt.Errorf("announcing that the cluster is ready: %w", err)
	}
	return nil
}

// ClearReady removes the file that shows that the cluster is ready.
func (d Dir) ClearReady() error {
	if err := os.Remove(d.ready()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("withdrawing that the cluster is ready: %w", err)
	}
	return nil
}

// Ready returns the API server's URL if SetReady was called. It is valid only together with Holder: a killed process leaves
// the file behind.
func (d Dir) Ready() (url string, ready bool) {
	content, err := os.ReadFile(d.ready())
	return strings.TrimSpace(string(content)), err == nil
}

// WriteFile writes a file, readable by the user only, in such a way that no reader sees half of it.
func WriteFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), path)
}
