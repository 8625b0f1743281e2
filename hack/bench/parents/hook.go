// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// DelayParameter of the URL of the hook says how long each answer takes.
const DelayParameter = "delay"

// readHeaderTimeout is for clients that do not go on; there are none but ours.
const readHeaderTimeout = 10 * time.Second

// Hook is the sync hook of the parents. It decides nothing, and so costs little: what is measured is who calls it.
func Hook(w http.ResponseWriter, req *http.Request) {
	if delay, err := time.ParseDuration(req.URL.Query().Get(DelayParameter)); err == nil {
		time.Sleep(delay)
	}
	parent, err := parentIn(req.Body)
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body) // so that the connection is used again
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer(parent)) // whoever has gone does not want it
}

// parentIn reads a request as far as the parent, which comes before all that is large.
func parentIn(request io.Reader) (parent Object, err error) {
	decoder := json.NewDecoder(request)
	if _, err := decoder.Token(); err != nil {
		return parent, fmt.Errorf("reading a request: %w", err)
	}
	for decoder.More() {
		member, err := decoder.Token()
		if err != nil {
			return parent, fmt.Errorf("reading a request: %w", err)
		}
		if member == "parent" {
			return parent, decoder.Decode(&parent)
		}
		var other json.RawMessage
		if err := decoder.Decode(&other); err != nil {
			return parent, fmt.Errorf("reading %v in a request: %w", member, err)
		}
	}
	return parent, errors.New("a request without a parent")
}

// answer is what the spec of the parent says. All names and values are plain enough to need no escapes.
func answer(parent Object) []byte {
	spec := parent.Spec
	var body strings.Builder
	fmt.Fprintf(&body, `{"status":{"children":%d,"value":%q},"resyncAfterSeconds":%g,"children":[`, spec.Children, spec.Value, spec.ResyncAfterSeconds)
	filling := ""
	if spec.Size > 0 {
		filling = `,"filling":"` + strings.Repeat("x", spec.Size) + `"`
	}
	for i := range spec.Children {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{%q:%q}},"data":{"value":%q%s}}`,
			ChildName(parent.Name, i), Label, parent.Name, spec.Value, filling)
	}
	body.WriteString(`]}`)
	return []byte(body.String())
}

// ChildName is that of the i-th child.
func ChildName(parent string, i int) string { return fmt.Sprintf("%s-%04d", parent, i) }

// Serve the hook until the context ends. It says where, on a line.
func Serve(ctx context.Context, address string, stdout io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for calls of the hook: %w", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(Hook), ReadHeaderTimeout: readHeaderTimeout}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Fprintf(stdout, "listening on %s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the hook: %w", err)
	}
	return nil
}
